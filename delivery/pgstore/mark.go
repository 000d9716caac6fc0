package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

type marks struct {
	partitions keys
	sequences  bigints
	stream     positions // NULL for what was skipped
	generation integers
	streams    strs
	records    []uint64 // that close the batches; not sent
}

type parks struct {
	partitions []partition.ID
	sequences  []int64
	streams    []string
	attempts   []int32
	counted    []int32
	delay      []time.Duration
	dead       []bool
	blocked    []bool
	reason     []*string
	class      []*string
}

// leaseKeys is the rows that a statement compares and sets.
type leaseKeys struct {
	partitions keys
	epochs     bigints
	delivered  bigints
	fence      bigints
	stream     bigints
	revisions  bigints
}

// settlement is everything one transaction writes for several partitions.
type settlement struct {
	owner          *uuid.UUID
	all            leaseKeys
	ready, parked  marks
	park           parks
	promoted       []partition.ID
	promotedStream []string
	skipDead       bool
	retried        bool // of the ready ones
}

// Mark (ADR 7) settles the results in one transaction: published and skipped rows are
// deleted and recorded, the others parked or left as they are. It returns the
// partitions that were fenced, because their lease rows carry another owner or
// epoch; nothing of theirs was changed.
//
// The commit is asynchronous. When a crash or a failover of the server takes it back, the partition's
// row shows it to the next claim and the next mark, and the partition is taken anew: the stream's
// records then say what is stored. Until then nothing is marked, and ErrForgotten returned: a mark vouches for all before it.
func (s *Store) Mark(ctx context.Context, results []delivery.Result, retry delivery.RetryPolicy, random func() float64) (fenced []partition.ID, err error) {
	st := settle(results, retry, random)
	if len(st.all.partitions) == 0 {
		return nil, nil
	}
	var held map[partition.ID]bool
	b, usual := st.bulk()
	if usual {
		held, err = s.markBulk(ctx, st, b)
	}
	if !usual || errors.Is(err, errMoved) {
		held, err = s.markByKey(ctx, st)
	}
	if err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	for _, id := range st.all.partitions {
		if !held[id] {
			fenced = append(fenced, id)
		}
	}
	return fenced, nil
}

// markByKey settles whatever there may be.
func (s *Store) markByKey(ctx context.Context, st settlement) (held map[partition.ID]bool, err error) {
	held = map[partition.ID]bool{}
	note := func(rows pgx.Rows) error {
		var id partition.ID
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error { held[id] = true; return nil })
		return err
	}
	batch := &pgx.Batch{}
	s.sql.Marking.Queue(batch, nil)
	mark := func(query pg.Query, m marks) {
		query.Queue(batch, pg.Args{
			"owner": st.owner, "partitions": st.all.partitions, "epochs": st.all.epochs,
			"delivered": st.all.delivered, "fence": st.all.fence, "stream": st.all.stream, "revisions": st.all.revisions,
			"row_partitions": m.partitions, "sequences": m.sequences, "stream_sequences": m.stream, "generations": m.generation, "stream_ids": m.streams,
		}).Query(note)
	}
	if len(st.parked.partitions) == 0 || len(st.ready.partitions) > 0 {
		mark(s.sql.MarkReady, st.ready)
	}
	if len(st.parked.partitions) > 0 {
		mark(s.sql.MarkParked, st.parked)
	}
	if p := st.park; len(p.partitions) > 0 {
		s.sql.Park.Queue(batch, pg.Args{
			"owner": st.owner, "partitions": st.all.partitions, "epochs": st.all.epochs,
			"row_partitions": p.partitions, "sequences": p.sequences, "stream_ids": p.streams, "attempts": p.attempts, "counted": p.counted,
			"delays": p.delay, "dead": p.dead, "blocked": p.blocked, "reasons": p.reason, "classes": p.class,
		}).Query(note)
	}
	if len(st.promoted) > 0 {
		s.sql.Promote.Queue(batch, pg.Args{
			"owner": st.owner, "partitions": st.all.partitions, "epochs": st.all.epochs,
			"stream_partitions": st.promoted, "stream_ids": st.promotedStream, "skip_dead": st.skipDead,
		})
	}
	if err = s.db.SendBatch(ctx, batch).Close(); divided(err) {
		err = delivery.ErrForgotten
	}
	return held, err
}

// settle sorts the outcomes into the statements' parameters.
func settle(results []delivery.Result, retry delivery.RetryPolicy, random func() float64) settlement {
	var st settlement
	for _, r := range results {
		l := r.Batch.Lease
		st.owner = owner(l)
		st.skipDead = st.skipDead || r.Batch.Policy.SkipsDead()
		var delivered, fence, stream int64
		for i, o := range r.Outcomes {
			m := r.Batch.Messages[i]
			switch o.Kind {
			case delivery.Published, delivery.Skipped:
				delivered = max(delivered, m.Sequence)
				fence = max(fence, int64(o.FenceSequence))    // a stream's sequence never reaches 2^63
				stream = max(stream, int64(o.StreamSequence)) // a stream's sequence never reaches 2^63
				st.finish(m, o)
			case delivery.Retry, delivery.Permanent, delivery.Behind, delivery.Scheduled:
				st.shelve(m, o, retry, random)
			case delivery.Unresolved:
			}
		}
		st.all.partitions = append(st.all.partitions, l.Partition)
		st.all.epochs = append(st.all.epochs, l.Epoch)
		st.all.delivered = append(st.all.delivered, delivered)
		st.all.fence = append(st.all.fence, fence)
		st.all.stream = append(st.all.stream, stream)
		st.all.revisions = append(st.all.revisions, r.Revision)
	}
	return st
}

func (st *settlement) finish(m delivery.Message, o delivery.Outcome) {
	into := &st.ready
	st.retried = st.retried || m.Attempts > 0
	if m.Parked {
		into = &st.parked
		st.promoted = append(st.promoted, m.Partition)
		st.promotedStream = append(st.promotedStream, m.Stream)
	}
	into.partitions = append(into.partitions, m.Partition)
	into.sequences = append(into.sequences, m.Sequence)
	into.streams = append(into.streams, m.Stream)
	into.records = append(into.records, o.FenceSequence)
	into.generation = append(into.generation, int32(m.Generation)) // read from an int column
	if o.Kind == delivery.Skipped {
		o.StreamSequence = 0
	}
	into.stream = append(into.stream, o.StreamSequence)
}

func (st *settlement) shelve(m delivery.Message, o delivery.Outcome, retry delivery.RetryPolicy, random func() float64) {
	if m.Parked && o.Kind == delivery.Behind {
		return // it lies there already
	}
	if o.Kind == delivery.Behind || o.Kind == delivery.Permanent { // what it waits for may have gone; or what waits may pass a dead one
		st.promoted = append(st.promoted, m.Partition)
		st.promotedStream = append(st.promotedStream, m.Stream)
	}
	p := &st.park
	var (
		counted int32
		dead    bool
		delay   time.Duration
		reason  *string
		class   *string
	)
	if o.Kind == delivery.Retry || o.Kind == delivery.Permanent {
		counted = 1
		delay = retry.Delay(m.Attempts+1, random)
		dead = retry.Dies(m, o)
		text := delivery.Reason(o.Err)
		reason = &text
		name := classTemporary
		if o.Kind == delivery.Permanent {
			name = classPermanent
		}
		class = &name
	}
	p.partitions = append(p.partitions, m.Partition)
	p.sequences = append(p.sequences, m.Sequence)
	p.streams = append(p.streams, m.Stream)
	p.attempts = append(p.attempts, int32(m.Attempts)) // read from an int column
	p.counted = append(p.counted, counted)
	p.delay = append(p.delay, delay)
	p.dead = append(p.dead, dead)
	p.blocked = append(p.blocked, o.Kind == delivery.Behind)
	p.reason = append(p.reason, reason)
	p.class = append(p.class, class)
}

// The classes of failures, as tables keep them: one may be gone at the next attempt, the
// other cannot.
const (
	classTemporary = "temporary"
	classPermanent = "permanent"
)

// bulk has the parameters of MarkRanges (ADR 21) beyond the rows themselves, for
// each batch.
type bulk struct {
	partitions       keys
	low, high        integers
	first, last      bigints // stream sequences
	dense, ascending []bool  // sequences, stream sequences: one by one
}

const divisionByZero = "22012" // SQLSTATE

// errMoved says that a batch is not what its range holds.
var errMoved = errors.New("rows moved")

// bulk returns what it needs to settle everything at once by ranges; false where
// there is anything but rows published in their first attempt.
func (st *settlement) bulk() (bulk, bool) {
	rows := st.ready
	if len(st.parked.partitions) > 0 || len(st.park.partitions) > 0 || len(st.promoted) > 0 || st.retried {
		return bulk{}, false
	}
	var b bulk
	for at := range rows.partitions {
		if rows.generation[at] != 0 || rows.stream[at] == 0 {
			return bulk{}, false
		}
		position, last := int64(rows.stream[at]), len(b.partitions)-1 // a stream's sequence never reaches 2^63
		same := at > 0 && rows.partitions[at] == rows.partitions[at-1]
		switch {
		case same && rows.sequences[at] <= rows.sequences[at-1]:
			return bulk{}, false
		case same && rows.records[at] == rows.records[at-1]:
			b.high[last]++
			b.dense[last] = b.dense[last] && rows.sequences[at] == rows.sequences[at-1]+1
			b.ascending[last] = b.ascending[last] && rows.stream[at] == rows.stream[at-1]+1
			b.first[last], b.last[last] = min(b.first[last], position), max(b.last[last], position)
		default:
			b.partitions, b.low, b.high = append(b.partitions, rows.partitions[at]), append(b.low, int32(at+1)), append(b.high, int32(at+1)) // at most a window
			b.first, b.last = append(b.first, position), append(b.last, position)
			b.dense, b.ascending = append(b.dense, true), append(b.ascending, true)
		}
	}
	return b, len(slices.Compact(slices.Clone(b.partitions))) == len(st.all.partitions)
}

// markBulk settles everything by ranges, or nothing and errMoved.
func (s *Store) markBulk(ctx context.Context, st settlement, b bulk) (held map[partition.ID]bool, err error) {
	held = map[partition.ID]bool{}
	batch := &pgx.Batch{}
	s.sql.Marking.Queue(batch, nil)
	s.sql.MarkRanges.Queue(batch, pg.Args{
		"owner": st.owner, "partitions": st.all.partitions, "epochs": st.all.epochs,
		"delivered": st.all.delivered, "fence": st.all.fence, "stream": st.all.stream, "revisions": st.all.revisions,
		"batches": b.partitions, "lows": b.low, "highs": b.high, "first_stream": b.first, "last_stream": b.last, "dense": b.dense, "ascending": b.ascending,
		"sequences": st.ready.sequences, "stream_sequences": st.ready.stream,
	}).Query(func(rows pgx.Rows) error {
		var id partition.ID
		var one int
		_, err := pgx.ForEachRow(rows, []any{&id, &one}, func() error { held[id] = true; return nil })
		return err
	})
	err = s.db.SendBatch(ctx, batch).Close()
	if divided(err) {
		return nil, errMoved
	}
	return held, err
}

// divided reports whether a statement undid itself by a division by zero.
func divided(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == divisionByZero
}
