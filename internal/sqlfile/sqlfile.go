package sqlfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
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

// Set holds the statements of one package, by file name without ".sql".
type Set map[string]string

// Load reads every .sql file below dir and puts the schema into it.
func Load(fsys fs.FS, dir, schema string) (Set, error) {
	if err := CheckSchema(schema); err != nil {
		return nil, err
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	names, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("list statements in %s: %w", dir, err)
	}
	set := make(Set, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read statement %s: %w", name, err)
		}
		key := strings.TrimSuffix(path.Base(name), ".sql")
		set[key] = strings.ReplaceAll(string(text), "{schema}", quoted)
	}
	return set, nil
}

// Need returns the statements of the given names in that order; a missing one
// is an error that names it.
func (s Set) Need(names ...string) ([]string, error) {
	texts := make([]string, len(names))
	for i, name := range names {
		text, ok := s[name]
		if !ok {
			return nil, fmt.Errorf("statement %s.sql is not embedded", name)
		}
		texts[i] = text
	}
	return texts, nil
}
