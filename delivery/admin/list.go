package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

// Listing is a page of messages.
type Listing struct {
	// Messages are in the page's order.
	Messages []Message
	// Next is the After of the page behind this one; 0: there is none. A page may
	// hold fewer messages than its limit, even none, and still have a next one:
	// looking stops after some thousand events.
	Next int64
}

// part is what one source has for a page.
type part struct {
	messages []Message
	// upTo is the sequence up to which the source was read; 0: to its end.
	upTo int64
}

// List returns a page of the messages that a filter chooses, of one instant.
func (o *Operator) List(ctx context.Context, f Filter, p Page) (Listing, error) {
	if err := f.validate(); err != nil {
		return Listing{}, err
	}
	if err := p.validate(); err != nil {
		return Listing{}, err
	}
	f, p = f.withDefaults(), p.withDefaults()
	var queued, settled part
	err := o.read(ctx, func(tx pgx.Tx) error {
		only, err := o.sequencesOf(ctx, tx, f)
		if err != nil || only != nil && len(only) == 0 {
			return err
		}
		if len(f.queueStates()) > 0 {
			if queued, err = o.listQueued(ctx, tx, f, p, only); err != nil {
				return err
			}
		}
		if len(f.settledStates()) > 0 {
			settled, err = o.listSettled(ctx, tx, f, p, only)
		}
		return err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list messages: %w", err)
	}
	return merge(p, queued, settled), nil
}

// sequencesOf returns the one sequence that a filter names, nil when it names
// none and an empty list when there is none.
func (o *Operator) sequencesOf(ctx context.Context, tx pgx.Tx, f Filter) ([]int64, error) {
	if f.EventID == uuid.Nil {
		if f.Sequence == 0 {
			return nil, nil
		}
		return []int64{f.Sequence}, nil
	}
	var sequence int64
	found, err := notFound(tx.QueryRow(ctx, o.find, f.EventID).Scan(&sequence))
	if err != nil || !found || f.Sequence != 0 && f.Sequence != sequence {
		return []int64{}, err
	}
	return []int64{sequence}, nil
}

// merge makes one page of two parts: as far as both were read.
func merge(p Page, parts ...part) Listing {
	var l Listing
	for _, one := range parts {
		l.Messages = append(l.Messages, one.messages...)
		if one.upTo != 0 && (l.Next == 0 || p.compare(one.upTo, l.Next) < 0) {
			l.Next = one.upTo
		}
	}
	slices.SortFunc(l.Messages, func(a, b Message) int { return p.compare(a.Sequence, b.Sequence) })
	if l.Next != 0 {
		l.Messages = slices.DeleteFunc(l.Messages, func(m Message) bool { return p.compare(m.Sequence, l.Next) > 0 })
	}
	if len(l.Messages) > p.Limit {
		l.Messages = l.Messages[:p.Limit]
		l.Next = l.Messages[p.Limit-1].Sequence
	}
	return l
}

// listQueued reads the rows that are in the outbox.
func (o *Operator) listQueued(ctx context.Context, tx pgx.Tx, f Filter, p Page, only []int64) (part, error) {
	in := f.Partitions
	if len(in) == 0 {
		var err error
		if in, err = keys(ctx, tx, o.queueKeys); err != nil {
			return part{}, err
		}
	}
	states, statement := f.queueStates(), o.queued
	if !slices.Contains(states, Pending) && !slices.Contains(states, Blocked) {
		statement = o.troubled
	}
	rows, err := tx.Query(ctx, statement.of(p.Descending), in, p.After, p.Limit, states, !slices.Contains(states, Pending),
		orNull(f.Stream), orNull(f.Topic), only, orNull(f.ErrorContains), orNull(f.Type), timeOrNull(f.Since), timeOrNull(f.Until))
	if err != nil {
		return part{}, err
	}
	messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Message, error) {
		var m Message
		var e eventColumns
		err := row.Scan(&m.Sequence, &m.Partition, &m.Stream, &m.Topic, &m.State, &m.Attempts, &m.Generation,
			&m.AvailableAt, &m.DeadAt, &m.LastError, &e.id, &e.kind, &e.version, &e.recordedAt)
		e.into(&m)
		return m, err
	})
	got := part{messages: messages}
	if len(messages) == p.Limit {
		got.upTo = messages[p.Limit-1].Sequence
	}
	return got, err
}

// eventColumns are those of an event that may be missing.
type eventColumns struct {
	id         *uuid.UUID
	kind       *string
	version    *int64
	recordedAt *time.Time
}

func (e eventColumns) into(m *Message) {
	if e.id != nil {
		m.EventID = *e.id
	}
	if e.kind != nil {
		m.Type = *e.kind
	}
	if e.version != nil {
		m.StreamVersion = *e.version
	}
	if e.recordedAt != nil {
		m.RecordedAt = *e.recordedAt
	}
}

// How many events one page looks at. Those of a sparse filter are looked up one
// by one, at most as many as the page has room for.
const (
	denseWindow  = 5000
	sparseWindow = 500
)

// listSettled reads the next events and what the history tells about them.
func (o *Operator) listSettled(ctx context.Context, tx pgx.Tx, f Filter, p Page, only []int64) (part, error) {
	known, err := o.history(ctx, tx)
	if err != nil || len(known.partitions) == 0 {
		return part{}, err
	}
	in, after, window := known.partitions, p.After, denseWindow
	if len(f.Partitions) > 0 {
		in = f.Partitions
	}
	if f.sparse() {
		window = min(p.Limit, sparseWindow)
	}
	if !p.Descending {
		after = max(after, known.lowest) // what is below was forgotten
	}
	var end part
	if only == nil && !f.wants(Published) {
		window = min(p.Limit, sparseWindow)
		if only, err = o.skippedPage(ctx, tx, f, p, after, window); err != nil || len(only) == 0 {
			return part{}, err
		}
		if len(only) == window {
			end.upTo = only[window-1]
		}
	}
	candidates, err := o.eventsPage(ctx, tx, f, p, after, window, only)
	if err != nil || len(candidates) == 0 {
		return end, err
	}
	last := candidates[len(candidates)-1].Sequence
	forgotten := p.Descending && last <= known.lowest // what is below was
	if len(candidates) == window && end.upTo == 0 && !forgotten {
		end.upTo = last
	}
	end.messages, err = o.settled(ctx, tx, in, f, candidates, only != nil || f.sparse())
	return end, err
}

// skippedPage returns the next sequences that were settled without a message.
func (o *Operator) skippedPage(ctx context.Context, tx pgx.Tx, f Filter, p Page, after int64, window int) ([]int64, error) {
	rows, err := tx.Query(ctx, o.skipped.of(p.Descending), after, window, f.Partitions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// eventsPage returns the next events that the filter chooses by what they are.
func (o *Operator) eventsPage(ctx context.Context, tx pgx.Tx, f Filter, p Page, after int64, window int, only []int64) ([]Message, error) {
	rows, err := tx.Query(ctx, o.events.of(p.Descending), after, window, only,
		orNull(f.Stream), orNull(f.Topic), orNull(f.Type), timeOrNull(f.Since), timeOrNull(f.Until))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Message, error) {
		var m Message
		err := row.Scan(&m.Sequence, &m.Stream, &m.Topic, &m.EventID, &m.Type, &m.StreamVersion, &m.RecordedAt)
		return m, err
	})
}

// settled keeps those of the candidates that were settled as the filter wants
// it and are not in the outbox again.
func (o *Operator) settled(
	ctx context.Context, tx pgx.Tx, in []partition.ID, f Filter, candidates []Message, each bool,
) ([]Message, error) {
	low, high, since := candidates[0].Sequence, candidates[0].Sequence, candidates[0].RecordedAt
	sequences := make([]int64, len(candidates))
	for i, m := range candidates {
		low, high, sequences[i] = min(low, m.Sequence), max(high, m.Sequence), m.Sequence
		if m.RecordedAt.Before(since) {
			since = m.RecordedAt
		}
	}
	only := sequences
	if !each {
		only = nil
	}
	deliveries, err := o.delivered(ctx, tx, in, low, high, since, only)
	if err != nil {
		return nil, err
	}
	queued, err := o.queuedAmong(ctx, tx, low, high)
	if err != nil {
		return nil, err
	}
	var messages []Message
	for _, m := range candidates {
		if m.settle(deliveries[m.Sequence]) && !queued[m.Sequence] && f.wants(m.State) {
			messages = append(messages, m)
		}
	}
	return messages, nil
}

// queuedAmong returns which sequences of a range are in the outbox.
func (o *Operator) queuedAmong(ctx context.Context, tx pgx.Tx, low, high int64) (map[int64]bool, error) {
	in, err := keys(ctx, tx, o.queueKeys)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, o.queuedBetween, in, low, high)
	if err != nil {
		return nil, err
	}
	queued := map[int64]bool{}
	var sequence int64
	_, err = pgx.ForEachRow(rows, []any{&sequence}, func() error { queued[sequence] = true; return nil })
	return queued, err
}
