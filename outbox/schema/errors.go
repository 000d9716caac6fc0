package schema

import "errors"

// Errors to branch on. They come wrapped in a text with the cure.
var (
	// ErrNotMigrated: the schema has no outbox tables.
	ErrNotMigrated = errors.New("outbox schema is not migrated")
	// ErrOutdated: the tables are older than this binary needs.
	ErrOutdated = errors.New("outbox schema is outdated")
	// ErrNewer: the tables were migrated by a newer binary, and shut this one out.
	ErrNewer = errors.New("outbox schema is newer than this binary")
	// ErrPartitionMismatch: another partition count is stored than was asked for.
	ErrPartitionMismatch = errors.New("partition count does not match the stored one")
	// ErrStreamMismatch: another stream, or other subjects, are stored than were asked for.
	ErrStreamMismatch = errors.New("stream does not match the stored one")
	// ErrLiving: Up cannot store other events, another stream or other subjects while a worker lives.
	ErrLiving = errors.New("settings were not stored")
	// ErrEvents: Up cannot store that relation.
	ErrEvents = errors.New("events relation was not stored")
	// ErrControl: Up cannot store that prefix of the control subjects any more.
	ErrControl = errors.New("control prefix was not stored")
	// ErrCreators: others may create in the schema, without Config.OthersMayCreate.
	ErrCreators = errors.New("others may create in the outbox's schema")
	// ErrServerVersion: PostgreSQL is older than 14.
	ErrServerVersion = errors.New("PostgreSQL 14 or newer is required")
	// ErrUnpublished: Down would remove rows that were never published.
	ErrUnpublished = errors.New("unpublished rows exist")
	// ErrInUse: something outside reads or refers to the tables that Down removes.
	ErrInUse = errors.New("the outbox is in use")
	// ErrCaptured: Down would leave triggers of other tables that append; writes to these would fail.
	ErrCaptured = errors.New("tables append to the outbox by triggers")
	// ErrDirection: Print knows only Up and Down.
	ErrDirection = errors.New(`direction must be "up" or "down"`)
)
