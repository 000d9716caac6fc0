package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/outbox"
)

// maxTransaction bounds the payloads of one transaction, which is held in memory as a whole.
const maxTransaction = 1 << 30

// chunkBytes ends a chunk of large events before it has ChunkEvents.
const chunkBytes = 16 << 20

type transaction struct {
	number int64
	rows   []row
	bytes  int
}

type row struct {
	line       int
	stream     string
	version    int64
	kind       string
	occurredAt time.Time
	payload    []byte

	id                 uuid.UUID
	topic, tenant, key string
	metadata           outbox.Metadata
	auditOnly          bool
}

// event returns the row as it is appended, with that topic if it has none.
func (r *row) event(c *Config) outbox.Event {
	e := outbox.Event{
		ID:              r.id,
		StreamID:        r.stream,
		Type:            r.kind,
		Topic:           r.topic,
		TenantID:        r.tenant,
		PartitionKey:    r.key,
		Payload:         r.payload,
		Metadata:        r.metadata,
		OccurredAt:      r.occurredAt,
		ExpectedVersion: outbox.ExactVersion(r.version - 1),
		AuditOnly:       r.auditOnly || c.AuditOnly,
	}
	e.Topic = cmp.Or(e.Topic, c.Topic)
	return e
}

type reader struct {
	source *source
	// ahead is the transaction whose end is not reached yet.
	ahead *transaction
	err   error
}

// chunk returns the next transactions, of about so many events together, and io.EOF or the error that ended the file. The transaction of the
// error is not among them.
func (r *reader) chunk(events int) ([]transaction, error) {
	var whole []transaction
	count, size := 0, 0
	for r.err == nil && count < events && size < chunkBytes {
		done := r.step()
		if done != nil {
			whole = append(whole, *done)
			count += len(done.rows)
			size += done.bytes
		}
	}
	return whole, r.err
}

// step reads one line and returns the transaction that it proves complete.
func (r *reader) step() *transaction {
	line, err := r.source.next()
	if errors.Is(err, io.EOF) {
		r.err = io.EOF
		return r.ahead
	}
	if err != nil {
		r.err = err
		return nil
	}
	number, parsed, err := parse(line)
	if err != nil {
		r.err = err
		return nil
	}
	parsed.line = r.source.line
	var done *transaction
	switch {
	case r.ahead == nil:
		r.ahead = &transaction{number: number}
	case number < r.ahead.number:
		// The line belongs to an earlier transaction; the one before it ends here and is whole.
		r.err = inputError("tx goes back from %d to %d", r.ahead.number, number)
		return r.ahead
	case number > r.ahead.number:
		done, r.ahead = r.ahead, &transaction{number: number}
	}
	r.ahead.rows = append(r.ahead.rows, parsed)
	if r.ahead.bytes += len(parsed.payload); r.ahead.bytes > maxTransaction {
		r.err = inputError("transaction %d is over %d MiB", number, maxTransaction>>20)
	}
	return done
}

// Line is one line of a file; absent fields stay nil or empty. Fields behind the payload are optional.
type Line struct {
	// Tx numbers the transaction.
	Tx         *int64          `json:"tx"`
	Stream     *string         `json:"stream"`
	Version    *int64          `json:"version"`
	Type       *string         `json:"type"`
	OccurredAt *time.Time      `json:"occurred_at"`
	Payload    json.RawMessage `json:"payload,omitempty"`

	// Bytes is a payload that cannot stand in a line of JSON as it is.
	Bytes     []byte           `json:"payload_base64,omitzero"`
	EventID   *uuid.UUID       `json:"event_id,omitempty"`
	Topic     string           `json:"topic,omitempty"`
	Tenant    string           `json:"tenant,omitempty"`
	Key       string           `json:"partition_key,omitempty"`
	Metadata  *json.RawMessage `json:"metadata,omitempty"`
	AuditOnly bool             `json:"audit_only,omitempty"`
	// Sequence and RecordedAt are those of the event's former outbox; an import gives it others.
	Sequence   int64      `json:"sequence,omitempty"`
	RecordedAt *time.Time `json:"recorded_at,omitempty"`
}

func parse(text []byte) (number int64, r row, err error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return 0, row{}, inputError("malformed JSON: %w", err)
	}
	for _, field := range []struct {
		name    string
		present bool
	}{
		{"tx", l.Tx != nil},
		{"stream", l.Stream != nil},
		{"version", l.Version != nil},
		{"type", l.Type != nil},
		{"occurred_at", l.OccurredAt != nil},
		{"payload", l.Payload != nil || l.Bytes != nil},
	} {
		if !field.present {
			return 0, row{}, inputError("field %q is missing", field.name)
		}
	}
	switch {
	case *l.Stream == "":
		return 0, row{}, inputError("field \"stream\" is empty")
	case *l.Type == "":
		return 0, row{}, inputError("field \"type\" is empty")
	case strings.ContainsRune(*l.Stream, 0) || strings.ContainsRune(*l.Type, 0):
		return 0, row{}, inputError("fields \"stream\" and \"type\" must not contain U+0000")
	case l.EventID != nil && *l.EventID == uuid.Nil:
		return 0, row{}, inputError("field \"event_id\" must not be the nil UUID; leave it out for a new one")
	case *l.Version < 1:
		return 0, row{}, inputError("field \"version\" must be at least 1, got %d", *l.Version)
	}
	r = row{
		stream: *l.Stream, version: *l.Version, kind: *l.Type, occurredAt: *l.OccurredAt, payload: l.Payload,
		topic: l.Topic, tenant: l.Tenant, key: l.Key, auditOnly: l.AuditOnly,
	}
	if l.Bytes != nil {
		r.payload = l.Bytes
	}
	if l.EventID != nil {
		r.id = *l.EventID
	}
	if l.Metadata != nil {
		if err = json.Unmarshal(*l.Metadata, &r.metadata); err != nil {
			return 0, row{}, inputError("field \"metadata\": %w", err)
		}
	}
	return *l.Tx, r, nil
}

// Count reads a file as an import does, and returns the number of its events.
func Count(r io.Reader, name string) (events int, err error) {
	source, err := newSource(r)
	if err != nil {
		return 0, &LineError{File: name, Line: 1, Err: err}
	}
	lines := &reader{source: source}
	for lines.err == nil {
		if done := lines.step(); done != nil {
			events += len(done.rows)
		}
	}
	if !errors.Is(lines.err, io.EOF) {
		return events, &LineError{File: name, Line: source.line, Err: lines.err}
	}
	return events, nil
}
