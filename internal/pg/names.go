package pg

import (
	"errors"
	"fmt"
	"regexp"
)

// OutboxTables and InboxTables are the tables that we make in a schema; statements have them as {outbox_tables} and {inbox_tables}. Others
// are the application's, whatever their names.
var (
	OutboxTables = []string{
		"events", "outbox", "outbox_audit", "outbox_dedupe_keys", "outbox_deliveries", "outbox_former_partitions", "outbox_ownership", "outbox_parked",
		"outbox_partitions", "outbox_ready", "outbox_replay_sequences", "outbox_replays", "outbox_schema_version", "outbox_settings",
		"outbox_stream_heads", "outbox_throughput", "outbox_types", "outbox_watermark", "outbox_workers",
	}
	InboxTables = []string{
		"inbox_callers", "inbox_calls", "inbox_consumers", "inbox_lanes", "inbox_malformed", "inbox_parked", "inbox_readers", "inbox_records",
		"inbox_schema_version", "inbox_senders", "inbox_streams",
	}
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

// ErrRelationName is returned when a relation's name is neither a plain identifier nor two of them with a dot between.
var ErrRelationName = errors.New("name must be a plain identifier or schema.identifier")

var relationName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// CheckRelation refuses a name that is not "name" or "schema.name" of plain identifiers.
func CheckRelation(name string) error {
	if !relationName.MatchString(name) {
		return fmt.Errorf("%w, got %q", ErrRelationName, name)
	}
	return nil
}
