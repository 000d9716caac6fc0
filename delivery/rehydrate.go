package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrEventMissing is the failure of a pointer whose event cannot be found. It
// is the message's own fault and may heal, so it is retried.
var ErrEventMissing = errors.New("event not found")

// ErrPayloadTooLarge is the failure of an event whose payload exceeds a limit.
var ErrPayloadTooLarge = errors.New("payload too large")

// Rehydrate reads the events of those sequences, ascending, in one query, and
// stops keeping payloads when they exceed maxBytes together: the events from
// there on are left out and cutAt is the first of their sequences (0: none).
// Payloads above maxPayload are not read; their events carry only a Size.
//
// In the same round trip everything up to readUpTo, a position of the
// write-ahead log, is made durable.
func (s *Store) Rehydrate(ctx context.Context, sequences []int64, readUpTo string, maxPayload, maxBytes int64) (events map[int64]*Event, cutAt int64, err error) {
	events = make(map[int64]*Event, len(sequences))
	var held int64
	batch := &pgx.Batch{}
	batch.Queue(s.flush, readUpTo)
	if len(sequences) > 0 {
		batch.Queue(s.rehydrate, sequences, maxPayload).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if cutAt != 0 {
					continue // the rest is read off the wire, and dropped
				}
				e, err := scanEvent(rows)
				if err != nil {
					return err
				}
				if held += int64(len(e.Payload)); held > maxBytes && len(events) > 0 {
					cutAt = e.Sequence
					continue
				}
				events[e.Sequence] = e
			}
			return rows.Err()
		})
	}
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("rehydrate: %w", err)
	}
	return events, cutAt, nil
}

func scanEvent(rows pgx.Rows) (*Event, error) {
	var (
		e                               Event
		size                            *int64
		traceParent, traceState, tenant *string
	)
	err := rows.Scan(&e.Sequence, &e.ID, &e.StreamVersion, &e.Type, &size, &e.Payload,
		&traceParent, &traceState, &e.Headers, &tenant, &e.AuditOnly, &e.RecordedAt)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		from *string
		to   *string
	}{{traceParent, &e.TraceParent}, {traceState, &e.TraceState}, {tenant, &e.TenantID}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if size != nil {
		e.Size = *size
	}
	return &e, nil
}
