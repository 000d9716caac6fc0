package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/arena"
	"github.com/postrider/postrider/internal/pg"
)

// Rehydrate reads the events of those sequences, as far as their payloads fit into
// maxBytes together; one always does. The first that does not fit is cutAt (0: all
// fit), and the events from there on are to be left out. Payloads above maxPayload
// are not read; their events carry only a Size. It returns ErrForgotten where another server answers than the one that was
// started at the time server, as a sequence may mean another event there; the zero time permits any.
//
// Payloads that are small enough for all of them to fit come at once. The sizes of larger ones come with them, and those that fit are
// read afterwards.
func (s *Store) Rehydrate(ctx context.Context, server time.Time, sequences []int64, maxPayload, maxBytes int64) (events map[int64]*delivery.Event, cutAt int64, err error) {
	events = make(map[int64]*delivery.Event, len(sequences))
	if len(sequences) == 0 {
		return events, 0, nil
	}
	batch := &pgx.Batch{}
	small := min(maxPayload, maxBytes/int64(len(sequences)))
	read := func(sequences []int64, most int64) {
		s.sql.Reading.Queue(batch, pg.Args{"server": pg.OrNull(server)})
		s.sql.Rehydrate.Queue(batch, pg.Args{
			"sequences": bigints(sequences), "low": slices.Min(sequences), "high": slices.Max(sequences), "payload": most,
		}).Query(collectEvents(events, len(sequences)))
	}
	read(sequences, small)
	if err := s.rehydrate(ctx, server, batch); err != nil {
		return nil, 0, err
	}
	large, cutAt := largeThatFit(events, small, maxPayload, maxBytes)
	if len(large) == 0 {
		return events, cutAt, nil
	}
	batch = &pgx.Batch{}
	read(large, maxPayload)
	s.sql.LetGo.Queue(batch, nil)
	if err := s.rehydrate(ctx, server, batch); err != nil {
		return nil, 0, err
	}
	return events, cutAt, nil
}

func (s *Store) rehydrate(ctx context.Context, server time.Time, batch *pgx.Batch) error {
	err := s.db.SendBatch(ctx, batch).Close()
	switch {
	case !server.IsZero() && divided(err): // or the relation of events did
		return fmt.Errorf("rehydrate: %w: %w", delivery.ErrForgotten, err)
	case err != nil:
		return fmt.Errorf("rehydrate: %w", err)
	}
	return nil
}

// largeThatFit returns which payloads between small and maxPayload fit beside the
// small ones, the first in any case, and where the first lies that does not.
func largeThatFit(events map[int64]*delivery.Event, small, maxPayload, maxBytes int64) (fit []int64, cutAt int64) {
	var large []int64
	for sequence, e := range events {
		switch {
		case e.Size <= small:
			maxBytes -= e.Size
		case e.Size <= maxPayload:
			large = append(large, sequence)
		}
	}
	slices.Sort(large)
	for n, sequence := range large {
		if maxBytes -= events[sequence].Size; maxBytes < 0 && n > 0 {
			return large[:n], sequence
		}
	}
	return large, 0
}

func collectEvents(events map[int64]*delivery.Event, most int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		room := make([]delivery.Event, 0, most)
		reader := newEventReader()
		for rows.Next() {
			if err := rows.Scan(reader.into...); err != nil {
				return err
			}
			e := reader.event()
			if len(room) == cap(room) { // a relation that is no table may hold a sequence twice
				room = make([]delivery.Event, 0, most)
			}
			room = append(room, e)
			events[e.Sequence] = &room[len(room)-1]
		}
		return rows.Err()
	}
}

// eventReader holds what the columns of one event are read into.
type eventReader struct {
	into []any

	sequence           int64
	id                 pgtype.UUID
	version, size      pgtype.Int8
	auditOnly          bool
	occurred, recorded pgtype.Timestamptz

	// These are the driver's memory until the next row, and copied to the ones below.
	kind, parent, state, correlation, causation, tenant, headers, payload pgtype.DriverBytes

	kinds, parents, states, relations, tenants arena.Texts
	bodies                                     arena.Bodies
}

func newEventReader() *eventReader {
	r := &eventReader{}
	r.into = []any{
		&r.sequence, &r.id, &r.version, &r.kind, &r.size, &r.payload,
		&r.parent, &r.state, &r.headers, &r.correlation, &r.causation, &r.tenant, &r.auditOnly, &r.occurred, &r.recorded,
	}
	return r
}

// event takes what the row holds: a value that is missing or unfit is the event's
// own failure, not the batch's.
func (r *eventReader) event() delivery.Event {
	e := delivery.Event{
		Sequence: r.sequence, ID: r.id.Bytes, OccurredAt: r.occurred.Time, RecordedAt: r.recorded.Time, AuditOnly: r.auditOnly,
		Type: r.kinds.Keep(r.kind), TenantID: r.tenants.Keep(r.tenant),
		TraceParent: r.parents.Keep(r.parent), TraceState: r.states.Keep(r.state),
		CorrelationID: r.relations.Keep(r.correlation), CausationID: r.relations.Keep(r.causation),
		Headers: stringsOf(r.headers), Payload: r.bodies.Keep(r.payload),
	}
	switch {
	case e.ID == uuid.Nil: // what follows consumers would refuse
		e.Unreadable = fmt.Errorf("%w: event_id is NULL or zero", delivery.ErrEventUnreadable)
	case r.version.Int64 < 1:
		e.Unreadable = fmt.Errorf("%w: stream_version is NULL or below 1", delivery.ErrEventUnreadable)
	case e.Type == "":
		e.Unreadable = fmt.Errorf("%w: event_type is NULL or empty", delivery.ErrEventUnreadable)
	case !r.size.Valid:
		e.Unreadable = fmt.Errorf("%w: payload is NULL", delivery.ErrEventUnreadable)
	default:
		e.StreamVersion, e.Size = r.version.Int64, r.size.Int64
	}
	return e
}

// stringsOf takes the members of a JSON object that are strings; others cannot
// be headers.
func stringsOf(object []byte) map[string]string {
	if len(object) == 0 {
		return nil
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(object))
	if decoder.UseNumber(); decoder.Decode(&members) != nil { // jsonb holds numbers that no float does
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
