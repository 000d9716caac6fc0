package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Listing is a page of messages.
type Listing struct {
	// Messages are in the page's order.
	Messages []Message
	// Next is the After of the page behind this one; 0: there is none. A page may
	// hold fewer messages than its limit, even none, and still have a next one.
	Next int64
	// LookedUpTo is how far the search came when Page.Within was over before the page was full; everything up to this sequence, in the
	// page's order, was looked at, and Next goes on behind it. 0: the page is full, or the list ends.
	LookedUpTo int64
}

// List returns a page of the messages that a filter chooses, of one instant. It takes about as long as Page.Within at most, however many
// messages there are and however few of them match.
func (o *Operator) List(ctx context.Context, f Filter, p Page) (Listing, error) {
	began := time.Now()
	if err := f.validate(); err != nil {
		return Listing{}, err
	}
	if err := p.validate(); err != nil {
		return Listing{}, err
	}
	f, p = f.withDefaults(), p.withDefaults()
	var l Listing
	err := o.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		s := &search{o: o, tx: tx, f: f, p: p, until: began.Add(p.Within)}
		if err := s.open(ctx); err != nil {
			return err
		}
		l, err = s.page(ctx)
		return err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list messages: %w", err)
	}
	return l, nil
}

// sequencesOf returns the one sequence that a filter names, nil when it names none and an empty list when there is none.
func (o *Operator) sequencesOf(ctx context.Context, tx pgx.Tx, f Filter) ([]int64, error) {
	if f.EventID == uuid.Nil {
		if f.Sequence == 0 {
			return nil, nil
		}
		return []int64{f.Sequence}, nil
	}
	var sequence int64
	found, err := notFound(o.sql.Find.Row(ctx, tx, pg.Args{"id": f.EventID}).Scan(&sequence))
	if err != nil || !found || f.Sequence != 0 && f.Sequence != sequence {
		return []int64{}, err
	}
	return []int64{sequence}, nil
}

type rowKey struct {
	partition partition.ID
	sequence  int64
}

// readRows reads rows of the outbox with their events, by sequence.
func (o *Operator) readRows(ctx context.Context, tx pgx.Tx, keys []rowKey) (map[int64]Message, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	partitions, sequences := make([]partition.ID, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		partitions[i], sequences[i] = k.partition, k.sequence
	}
	rows, err := o.sql.Rows.Rows(ctx, tx, pg.Args{"partitions": partitions, "sequences": sequences})
	if err != nil {
		return nil, err
	}
	messages := make(map[int64]Message, len(keys))
	var m Message
	var e eventColumns
	_, err = pgx.ForEachRow(rows, []any{
		&m.Sequence, &m.Partition, &m.Stream, &m.Topic, &m.State, &m.Attempts, &m.Generation,
		&m.AvailableAt, &m.DeadAt, &m.LastError, &e.id, &e.kind, &e.version, &e.recordedAt,
	}, func() error {
		one := m
		e.into(&one)
		messages[m.Sequence] = one
		return nil
	})
	return messages, err
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
