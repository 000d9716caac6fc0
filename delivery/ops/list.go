package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	// LookedUpTo is the end of the search when Page.Within was over before the page was full; everything up to this sequence, in the
	// page's order, was looked at, and Next goes on behind it. 0: the page is full, or the list ends.
	LookedUpTo int64
}

// List returns a page of the messages that a filter chooses, of one instant. It takes at most about Page.Within, however many messages
// there are and however few of them match.
func (o *Operator) List(ctx context.Context, f Filter, p Page) (Listing, error) {
	began := time.Now()
	if err := f.validate(); err != nil {
		return Listing{}, err
	}
	if err := p.validate(); err != nil {
		return Listing{}, err
	}
	f, p = f.withDefaults(), p.withDefaults()
	p.Within -= time.Since(began)
	after := p.After
	if f.Sequence != 0 {
		after = f.Sequence
	}
	l, err := besides(ctx, o, after, func(o *Operator, broken unreadable) (l Listing, err error) {
		err = o.outbox.Read(ctx, func(tx pgx.Tx) error {
			s := &search{o: o, tx: tx, f: f, p: p, until: time.Now().Add(p.Within)}
			if err := s.open(ctx); err != nil {
				return err
			}
			if l, err = s.page(ctx); err != nil {
				return err
			}
			return s.name(ctx, broken, &l)
		})
		return l, err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list messages: %w", err)
	}
	return l, nil
}

// unreadable maps events that cannot be read, as a view's row may fail, to reasons.
type unreadable map[int64]string

const (
	nearby         = 20_000
	mostUnreadable = 50
)

// besides calls look, and again without the events near a sequence that fail it.
func besides[T any](ctx context.Context, o *Operator, after int64, look func(*Operator, unreadable) (T, error)) (T, error) {
	all, err := look(o, nil)
	if !spoilt(err) {
		return all, err
	}
	broken := unreadable{}
	if failed := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		near, err := pg.Collect(ctx, tx, o.sql.Near, pg.Args{"after": after, "most": nearby}, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		return o.try(ctx, tx, near, broken)
	}); failed != nil || len(broken) == 0 {
		return all, errors.Join(err, failed)
	}
	sequences := strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(broken))), "[]")
	readable, failed := o.of(fmt.Sprintf("(SELECT r.* FROM %s AS r WHERE r.sequence <> ALL ('{%s}'::bigint[]))", o.events, strings.ReplaceAll(sequences, " ", ",")))
	if failed != nil {
		return all, failed
	}
	return look(readable, broken)
}

// without runs do on readable events alone, so that it chooses no other.
func (o *Operator) without(ctx context.Context, do func(*Operator) error) error {
	_, err := besides(ctx, o, math.MaxInt64, func(o *Operator, _ unreadable) (any, error) { return nil, do(o) })
	return err
}

// spoilt reports whether values, or an exception in the relation's functions, were the cause.
func spoilt(err error) bool {
	refused, is := errors.AsType[*pgconn.PgError](err)
	return is && slices.Contains([]string{"22", "P0"}, refused.Code[:2])
}

// try finds the unreadable ones among the events by halves.
func (o *Operator) try(ctx context.Context, tx pgx.Tx, sequences []int64, broken unreadable) error {
	if len(sequences) == 0 || len(broken) == mostUnreadable {
		return nil
	}
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = o.sql.Try.Exec(ctx, inner, pg.Args{"sequences": sequences})
	if undo := inner.Rollback(ctx); undo != nil {
		return undo
	}
	switch half := len(sequences) / 2; {
	case !spoilt(err):
		return err
	case half == 0:
		broken[sequences[0]] = fmt.Sprintf("event %d cannot be read: %v", sequences[0], err)
		return nil
	default:
		return cmp.Or(o.try(ctx, tx, sequences[:half], broken), o.try(ctx, tx, sequences[half:], broken))
	}
}

// name has the page show its unreadable messages, though their unknown values might not fit the filter.
func (s *search) name(ctx context.Context, broken unreadable, l *Listing) error {
	for sequence, why := range broken {
		if i := slices.IndexFunc(l.Messages, func(m Message) bool { return m.Sequence == sequence }); i >= 0 {
			l.Messages[i].LastError = cmp.Or(l.Messages[i].LastError, why)
			continue
		}
		if s.p.compare(sequence, s.p.After) <= 0 || l.Next != 0 && s.p.compare(sequence, l.Next) > 0 {
			continue
		}
		var d Detail
		known, err := s.o.look(ctx, s.tx, sequence, &d)
		if err != nil {
			return err
		}
		d.LastError = cmp.Or(d.LastError, why)
		if known && s.f.mayChoose(d.Message) {
			l.Messages = append(l.Messages, d.Message)
		}
	}
	slices.SortStableFunc(l.Messages, func(a, b Message) int { return s.p.compare(a.Sequence, b.Sequence) })
	return nil
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

// eventColumns are those of an event, which may be missing.
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
