package outboxtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// Partitions is a Fake's number of partitions: a migrated database's default.
const Partitions = 64

// ErrNotOfTheOutbox means that a Fake was given a statement of the application.
var ErrNotOfTheOutbox = errors.New("outboxtest: a Fake runs AppendTx, AppendSQL and Read alone; test other statements on a real database")

// Fake is an outbox in memory and a transaction on it: a pgx.Tx whose Begin gives inner ones, like savepoints. DB gives it as a *sql.DB. Like
// a transaction it is for one goroutine at a time.
type Fake struct {
	stored *stored
	outer  *Fake
	from   int // the number of events at its beginning
	ended  bool
}

// stored is the state that all transactions of a fake share.
type stored struct {
	entries  []entry
	sequence int64
	failed   bool // until the failed transaction is rolled back
}

type entry struct {
	Stored
	metadata string
}

var _ pgx.Tx = (*Fake)(nil)

// NewFake makes an empty one.
func NewFake() *Fake { return &Fake{stored: &stored{}} }

// aborted returns PostgreSQL's error until a failed transaction is rolled back.
func aborted() error {
	return refusal("25P02", "current transaction is aborted, commands ignored until end of transaction block", "", "")
}

func refusal(code, text, detail, constraint string) error {
	return &pgconn.PgError{Severity: "ERROR", Code: code, Message: text, Detail: detail, ConstraintName: constraint}
}

// usable returns the reason why the transaction takes no statement.
func (f *Fake) usable() error {
	switch {
	case f.ended:
		return pgx.ErrTxClosed
	case f.stored.failed:
		return aborted()
	}
	return nil
}

func (f *Fake) begin() (*Fake, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	return &Fake{stored: f.stored, outer: f, from: len(f.stored.entries)}, nil
}

func (f *Fake) commit() error {
	switch {
	case f.ended:
		return pgx.ErrTxClosed
	case !f.stored.failed:
		f.ended = true
		return nil
	case f.outer != nil: // a savepoint that failed cannot be released
		return aborted()
	}
	return errors.Join(pgx.ErrTxCommitRollback, f.rollback())
}

func (f *Fake) rollback() error {
	if f.ended {
		return pgx.ErrTxClosed
	}
	f.ended, f.stored.failed = true, false
	f.stored.entries = f.stored.entries[:min(f.from, len(f.stored.entries))]
	return nil
}

// answer runs a statement and returns its rows. One that fails fails the transaction.
func (f *Fake) answer(text string, args []any) (rows [][]any, err error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(text, "/* outbox.Append */"):
		rows, err = f.append(args)
	case strings.HasPrefix(text, readStatement):
		rows = f.read()
	default:
		return nil, refused(text)
	}
	f.stored.failed = err != nil
	return rows, err
}

func refused(text string) error {
	return fmt.Errorf("%w: %s", ErrNotOfTheOutbox, quote(text))
}

// read answers the statement of Read.
func (f *Fake) read() (rows [][]any) {
	for _, e := range f.stored.entries[min(f.from, len(f.stored.entries)):] {
		var available *time.Time
		if !e.AvailableAt.IsZero() {
			available = &e.AvailableAt
		}
		rows = append(rows, []any{
			e.Sequence, e.ID, e.StreamID, e.StreamVersion, e.Type, e.Topic, e.TenantID, e.PartitionKey, e.DedupeKey,
			e.Payload, cmp.Or(e.metadata, "{}"), e.AuditOnly, e.OccurredAt, available,
		})
	}
	return rows
}

// append answers as the function outbox_append_batch does.
func (f *Fake) append(args []any) (rows [][]any, err error) {
	b, err := decode(args)
	if err != nil {
		return nil, err
	}
	for i := range b.streams {
		var expected *int64
		if b.expected != nil {
			expected = b.expected[i]
		}
		row, err := f.stored.append(b.event(i), expected)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// append stores an event and returns the function's answer.
func (s *stored) append(e entry, expected *int64) ([]any, error) {
	var version int64
	kept := e.PartitionKey
	sameID := false
	for _, before := range s.entries {
		if e.DedupeKey != "" && before.DedupeKey == e.DedupeKey && before.Topic == e.Topic {
			return []any{before.Sequence, new(before.ID), new(before.StreamVersion), (*int16)(nil), true, false}, nil
		}
		if before.StreamID == e.StreamID {
			version, kept = before.StreamVersion, before.PartitionKey
		}
		sameID = sameID || before.ID == e.ID
	}
	switch {
	case expected != nil && *expected != version:
		detail, err := json.Marshal(outbox.VersionConflictError{Stream: e.StreamID, Expected: *expected, Actual: version})
		if err != nil {
			return nil, fmt.Errorf("outboxtest: %w", err)
		}
		return nil, refusal("OB001", fmt.Sprintf("stream '%s' is at version %d, expected %d", e.StreamID, version, *expected), string(detail), "")
	case e.PartitionKey != kept && e.PartitionKey != e.StreamID:
		return nil, refusal("22023", fmt.Sprintf("partition_key '%s' is not that of stream '%s', '%s', and a stream with two keys loses its order", e.PartitionKey, e.StreamID, kept), "", "")
	case sameID:
		const constraint = "events_event_id_key"
		return nil, refusal("23505", fmt.Sprintf("duplicate key value violates unique constraint %q", constraint), "", constraint)
	}
	s.sequence++
	e.Sequence, e.StreamVersion, e.PartitionKey = s.sequence, version+1, kept
	s.entries = append(s.entries, e)
	var placed *int16
	if !e.AuditOnly {
		placed = new(int16)
		*placed = int16(partition.Of(e.PartitionKey, Partitions))
	}
	return []any{e.Sequence, new(e.ID), new(e.StreamVersion), placed, false, !e.AuditOnly}, nil
}

// event returns the i-th one, as it is stored.
func (b *batch) event(i int) entry {
	now := time.Now()
	e := outbox.Event{
		ID: b.ids[i], StreamID: b.streams[i], Type: b.types[i], Topic: b.topics[i], TenantID: at(b.tenants, i), DedupeKey: at(b.dedupe, i),
		PartitionKey: cmp.Or(at(b.keys, i), b.streams[i]), Payload: b.payloads[i], OccurredAt: at(b.occurred, i),
		AuditOnly: b.published != nil && !b.published[i],
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now.Truncate(time.Microsecond)
	}
	if later := at(b.notBefore, i); later.After(now) && !e.AuditOnly { // the past is at once
		e.AvailableAt = later
	}
	metadata := ""
	if b.metadata != nil {
		metadata = string(b.metadata[i])
	}
	return entry{Stored{Event: e}, metadata}
}

// batch holds the arguments of outbox_append_batch; an array that is NULL is nil.
type batch struct {
	streams, types, topics []string
	payloads, metadata     [][]byte
	ids                    []uuid.UUID
	expected               []*int64
	keys, dedupe, tenants  []*string
	hashes                 []int64
	published              []bool
	notBefore, occurred    []*time.Time
}

// at returns the i-th entry, the zero value for NULL.
func at[T any](array []*T, i int) (value T) {
	if i < len(array) && array[i] != nil {
		value = *array[i]
	}
	return value
}
