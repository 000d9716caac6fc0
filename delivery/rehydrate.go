package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// ErrEventMissing is the failure of a pointer whose event cannot be found. It
// is the message's own fault and may heal, so it is retried.
var ErrEventMissing = errors.New("event not found")

// ErrPayloadTooLarge is the failure of an event whose payload exceeds a limit.
var ErrPayloadTooLarge = errors.New("payload too large")

// ErrEventUnreadable is the failure of an event whose row lacks a value or holds
// one that cannot be published.
var ErrEventUnreadable = errors.New("event cannot be read")

// planning keeps plans that were made while the tables were small from scanning
// them whole when they have grown: an empty outbox is the normal state.
const planning = `SELECT ` + planningSettings

const planningSettings = `set_config('enable_seqscan', 'off', true), set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)`

// Rehydrate reads the events of those sequences, ascending, in one query, as far
// as their payloads fit into maxBytes together; one always does. The first that
// does not fit is cutAt (0: all fit), and the events from there on are left out.
// Payloads above maxPayload are not read; their events carry only a Size.
//
// In the same round trip everything that the claim read is made durable. That is
// certain only in the claim's own session: a server that crashed meanwhile may have
// lost what the claim saw and have reached its position again.
func (s *Store) Rehydrate(ctx context.Context, found Claim, sequences []int64, maxPayload, maxBytes int64) (events map[int64]*Event, cutAt int64, err error) {
	events = make(map[int64]*Event, len(sequences))
	batch := &pgx.Batch{}
	batch.Queue(s.flush, found.readUpTo)
	if len(sequences) > 0 {
		batch.Queue(planning)
		batch.Queue(s.rehydrate, sequences, maxPayload, maxBytes).Query(func(rows pgx.Rows) error {
			cutAt, err = scanEvents(rows, events)
			return err
		})
	}
	if err := found.session.SendBatch(ctx, batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("rehydrate: %w", err)
	}
	return events, cutAt, nil
}

// scanEvents takes the events that fit; cutAt is the first that does not.
func scanEvents(rows pgx.Rows, events map[int64]*Event) (cutAt int64, err error) {
	for rows.Next() {
		e, fits, err := scanEvent(rows)
		if err != nil {
			return 0, err
		}
		if !fits {
			cutAt = e.Sequence
			continue
		}
		events[e.Sequence] = e
	}
	return cutAt, rows.Err()
}

// scanEvent takes what the row holds: a value that is missing or unfit is the
// event's own failure, not the batch's.
func scanEvent(rows pgx.Rows) (e *Event, fits bool, err error) {
	e = &Event{}
	var (
		id                                    pgtype.UUID
		version, size                         *int64
		kind, traceParent, traceState, tenant *string
		headers                               []byte
		occurred, recorded                    pgtype.Timestamptz
	)
	err = rows.Scan(&e.Sequence, &id, &version, &kind, &size, &fits, &e.Payload,
		&traceParent, &traceState, &headers, &tenant, &e.AuditOnly, &occurred, &recorded)
	if err != nil {
		return nil, false, err
	}
	e.ID, e.OccurredAt, e.RecordedAt, e.Headers = id.Bytes, occurred.Time, recorded.Time, stringsOf(headers)
	for _, f := range []struct {
		from *string
		to   *string
	}{{kind, &e.Type}, {traceParent, &e.TraceParent}, {traceState, &e.TraceState}, {tenant, &e.TenantID}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	switch {
	case !id.Valid:
		e.Unreadable = fmt.Errorf("%w: event_id is NULL", ErrEventUnreadable)
	case version == nil:
		e.Unreadable = fmt.Errorf("%w: stream_version is NULL", ErrEventUnreadable)
	case kind == nil:
		e.Unreadable = fmt.Errorf("%w: event_type is NULL", ErrEventUnreadable)
	case size == nil:
		e.Unreadable = fmt.Errorf("%w: payload is NULL", ErrEventUnreadable)
	default:
		e.StreamVersion, e.Size = *version, *size
	}
	return e, fits, nil
}

// stringsOf takes the members of a JSON object that are strings; others cannot
// be headers.
func stringsOf(object []byte) map[string]string {
	if len(object) == 0 {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	headers := make(map[string]string, len(members))
	for name, value := range members {
		if text, ok := value.(string); ok {
			headers[name] = text
		}
	}
	return headers
}
