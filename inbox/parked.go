package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// Parked is a message that waits in the inbox's table.
type Parked struct {
	message.Message

	// ID is the place in the order of arrival.
	ID int64
	// State is Failed, Waiting or Dead.
	State    Status
	Attempts int
	// DueAt is the time of the next try; zero for a message that is dead or waits behind another.
	DueAt    time.Time
	ParkedAt time.Time
	Reason   string
}

// ParkedQuery selects parked messages; an empty one selects the first 100 dead ones.
type ParkedQuery struct {
	// State is Failed, Waiting or Dead; 0 means Dead.
	State Status
	// Stream restricts to one stream; "" to none.
	Stream string
	// After is the ID behind which to begin; Limit is 1 to 10,000, 0 means 100.
	After int64
	Limit int
}

const (
	defaultList = 100
	maxList     = 10_000
)

// ErrQuery means that a ParkedQuery breaks a rule; the text names the field.
var ErrQuery = errors.New("invalid query")

// Parked lists parked messages in the order of their arrival. Compression is taken off as far as all bodies have no more than 64 MiB.
func (i *Inbox) Parked(ctx context.Context, q ParkedQuery) ([]Parked, error) {
	q.State = cmp.Or(q.State, Dead)
	q.Limit = cmp.Or(q.Limit, defaultList)
	switch {
	case q.State != Dead && q.State != Failed && q.State != Waiting:
		return nil, fmt.Errorf("%w: State must be Failed, Waiting or Dead, got %s", ErrQuery, q.State)
	case q.Limit < 1 || q.Limit > maxList:
		return nil, fmt.Errorf("%w: Limit must be 1 to %d, got %d", ErrQuery, maxList, q.Limit)
	}
	room := readAhead // a long list of bodies that become large must not fill the memory
	list, err := pg.Collect(ctx, i.db, i.sql.List, pg.Args{
		"consumer": i.cfg.Name, "state": q.State.String(), "after": q.After, "stream": q.Stream, "limit": q.Limit,
	}, func(row pgx.CollectableRow) (Parked, error) {
		p := Parked{State: q.State}
		var state, subject string
		var sequence int64
		var envelope, payload []byte
		var due *time.Time
		err := row.Scan(&p.ID, &state, &p.Attempts, &due, &p.ParkedAt, &p.Reason, &subject, &sequence, &envelope, &payload)
		if err != nil {
			return Parked{}, err
		}
		if due != nil {
			p.DueAt = *due
		}
		if p.Message, err = decodeEnvelope(envelope, subject, sequence, payload); err != nil {
			p.Message = message.Message{Subject: subject, StreamSequence: uint64(sequence), Payload: payload}
			p.Reason = fmt.Sprintf("%s (%v)", p.Reason, err)
		}
		// A damaged payload is shown as it came, and so is one without room.
		if room > 0 {
			if plain, err := i.decode(p.Message, min(i.cfg.MaxPayload, room)); err == nil {
				p.Message, room = plain, room-len(plain.Payload)
			}
		}
		return p, nil
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: list parked messages: %w", withCure(err))
	}
	return list, nil
}

// Dead lists dead messages, at most limit.
func (i *Inbox) Dead(ctx context.Context, limit int) ([]Parked, error) {
	return i.Parked(ctx, ParkedQuery{State: Dead, Limit: limit})
}

// Requeue makes dead messages due again with no attempts counted; without ids all of them. It returns their number.
func (i *Inbox) Requeue(ctx context.Context, events ...uuid.UUID) (int, error) {
	tag, err := i.sql.Requeue.Exec(ctx, i.db, pg.Args{"consumer": i.cfg.Name, "events": events})
	if err != nil {
		return 0, fmt.Errorf("inbox: requeue: %w", withCure(err))
	}
	i.cfg.Logger.InfoContext(ctx, "dead messages requeued", "consumer", i.cfg.Name, "count", tag.RowsAffected())
	return int(tag.RowsAffected()), nil
}

// Skip gives a dead message up: it counts as settled, with the note for its reason, a repeat of it does not run, and its stream goes on. It
// returns ErrNotFound when no dead message has that id.
func (i *Inbox) Skip(ctx context.Context, event uuid.UUID, note string) error {
	tx, end, err := i.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	var key int64
	switch err := i.sql.FindDead.Row(ctx, tx, pg.Args{"consumer": i.cfg.Name, "event": event}).Scan(&key); {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("inbox: skip %s: %w", event, ErrNotFound)
	case err != nil:
		return fmt.Errorf("inbox: skip %s: %w", event, withCure(err))
	}
	t := newTransaction(i, tx)
	if err := t.lockStream(ctx, key); err != nil {
		return err
	}
	var id, sequence int64
	var subject string
	var envelope, payload []byte
	err = i.sql.TakeDead.Row(ctx, tx, pg.Args{"key": key, "event": event}).Scan(&id, &subject, &sequence, &envelope, &payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("inbox: skip %s: %w", event, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("inbox: skip %s: %w", event, err)
	}
	m, err := decodeEnvelope(envelope, subject, sequence, payload)
	if err != nil {
		return err
	}
	t.record(key, m, nil)
	if err := t.settle(ctx, &note); err != nil {
		return err
	}
	if err := t.unpark(ctx, key, id); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("inbox: commit: %w", err)
	}
	i.cfg.Logger.InfoContext(ctx, "dead message skipped", "consumer", i.cfg.Name, "stream", m.Stream, "version", m.Version,
		"event_id", event, "note", note)
	return nil
}

// Forget drops a stream's records, so that its events run when they come again: for a rebuild, and to accept the events of a database that
// forgot published ones. Parked messages stay. It returns ErrNotFound for an unknown stream.
func (i *Inbox) Forget(ctx context.Context, name string) error {
	tx, end, err := i.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := i.limitIdle(ctx, tx); err != nil {
		return err
	}
	var key int64
	err = i.sql.ForgetStream.Row(ctx, tx, pg.Args{"consumer": i.cfg.Name, "stream": name}).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("inbox: forget %q: no such stream: %w", name, ErrNotFound)
	}
	if err == nil {
		_, err = i.sql.ForgetRecords.Exec(ctx, tx, pg.Args{"key": key})
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return fmt.Errorf("inbox: forget %q: %w", name, withCure(err))
	}
	return nil
}

// purgeChunk bounds the records that one statement deletes.
const purgeChunk = 5000

// Purge deletes records past the retention in chunks, each its own transaction, and returns their number. A stream's last event stays known
// for ever.
func (i *Inbox) Purge(ctx context.Context) (total int64, err error) {
	for {
		tag, err := i.sql.Purge.Exec(ctx, i.db, pg.Args{"consumer": i.cfg.Name, "retention": i.cfg.Retention, "limit": purgeChunk})
		if err != nil {
			return total, fmt.Errorf("inbox: purge: %w", withCure(err))
		}
		total += tag.RowsAffected()
		i.metrics.purged.Add(float64(tag.RowsAffected()))
		if tag.RowsAffected() < purgeChunk {
			return total, nil
		}
	}
}
