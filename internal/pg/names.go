package pg

import (
	"errors"
	"fmt"
	"regexp"
)

// ErrSchemaName is returned when a schema name is not a plain identifier.
var ErrSchemaName = errors.New("schema name must match ^[A-Za-z_][A-Za-z0-9_]{0,62}$")

var schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// CheckSchema refuses a schema name that is not a plain identifier of at most
// 63 bytes; a name with quotes, dots or spaces in it is never accepted.
func CheckSchema(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("%w: got %q", ErrSchemaName, name)
	}
	return nil
}

// ErrRelationName is returned when a relation's name is neither a plain identifier nor
// two of them with a dot between.
var ErrRelationName = errors.New("name must be a plain identifier or schema.identifier")

var relationName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// CheckRelation refuses a name that is not "name" or "schema.name" of plain identifiers.
func CheckRelation(name string) error {
	if !relationName.MatchString(name) {
		return fmt.Errorf("%w, got %q", ErrRelationName, name)
	}
	return nil
}
