package importer

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
)

// maxTransaction bounds the payloads of one transaction, which is held in memory as a whole.
const maxTransaction = 1 << 30

// chunkBytes ends a chunk of large events before it has ChunkEvents.
const chunkBytes = 16 << 20

// transaction is one transaction as the file has it.
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
}

func (r *row) event(topic string) outbox.Event {
	return outbox.Event{
		StreamID:        r.stream,
		Type:            r.kind,
		Topic:           topic,
		Payload:         r.payload,
		OccurredAt:      r.occurredAt,
		ExpectedVersion: outbox.ExactVersion(r.version - 1),
	}
}

// reader groups the lines of a source into transactions.
type reader struct {
	source *source
	// ahead is the transaction whose end is not reached yet.
	ahead *transaction
	err   error
}

// chunk returns the next transactions, of about so many events together, and io.EOF or what ended the file. The transaction in which an
// error fell is not among them.
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

// line is one line of a file; absent fields stay nil.
type line struct {
	Tx         *int64          `json:"tx"`
	Stream     *string         `json:"stream"`
	Version    *int64          `json:"version"`
	Type       *string         `json:"type"`
	OccurredAt *time.Time      `json:"occurred_at"`
	Payload    json.RawMessage `json:"payload"`
}

func parse(text []byte) (number int64, r row, err error) {
	var l line
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
		{"payload", l.Payload != nil},
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
	case *l.Version < 1:
		return 0, row{}, inputError("field \"version\" must be at least 1, got %d", *l.Version)
	}
	return *l.Tx, row{
		stream: *l.Stream, version: *l.Version, kind: *l.Type, occurredAt: *l.OccurredAt, payload: l.Payload,
	}, nil
}
