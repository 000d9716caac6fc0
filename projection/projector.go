package projection

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Event is an event as the journal has it.
type Event struct {
	Sequence int64     // global sequence, from 1
	Stream   string    // the stream's key
	Version  int64     // in the stream, from 1 without gaps
	ID       uuid.UUID // identifies the event everywhere
	Type     string
	Topic    string
	Tenant   string // "" where the event has none
	Payload  []byte
	Metadata json.RawMessage // nil where the event has none

	OccurredAt, RecordedAt time.Time

	audit   bool
	seconds float64 // from its recording until it was read, by the journal's clock
	read    time.Time
}

// Table is one table of a projection. Every row belongs to one stream.
type Table struct {
	// Name in the projection's schema: letters, digits and _.
	Name string
	// Stream is the text column that holds the stream's key; it needs an index, best as first column of the primary key.
	Stream string
	// Unchecked leaves the table out of the fingerprint that every batch computes over all rows of its stream: for
	// tables that grow with a stream's length. Rows deleted there are found by Integrity alone.
	Unchecked bool
}

// Projector is the user's part: the tables, and an event's effect on them.
type Projector interface {
	// Tables returns the tables that Define creates, always the same.
	Tables() []Table
	// Define creates tables, indexes and views, with IF NOT EXISTS and without naming a schema.
	Define(ctx context.Context, tx pgx.Tx) error
	// Apply writes the effect of one event, through tx and nothing else, in the rows of the event's stream alone, and without naming a
	// schema. The effect may depend on the stream's events and on nothing else, no clock, no random, no identity columns: a rebuild has to
	// end in the same rows. An event type that it ignores is no error. It is called again when its transaction failed. It must not commit or
	// roll back.
	Apply(ctx context.Context, tx pgx.Tx, event Event) error
}
