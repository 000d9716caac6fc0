package delivery

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Healed is what became of messages that the stream lost.
type Healed struct {
	// Lost messages had been acknowledged; Queued ones of them are to be
	// published again, the others' events are not there any more.
	Lost, Queued int
}

// BatchAt is a batch in a partition's history, ordered by its first sequence.
type BatchAt struct{ First, ID int64 }

// EveryBatch lies behind all batches.
var EveryBatch = BatchAt{math.MaxInt64, math.MaxInt64}

// healPage is how many batches of the history are healed in one transaction, which
// marks wait for.
const healPage = 100

// healReport is after how many pages a long healing tells how far it is.
const healReport = 50

// Loss is what a stream lost of a partition, or of several.
type Loss struct {
	// Kept is up to where it holds what was acknowledged.
	Kept uint64
	// Life is the present one of the partition's records.
	Life string
	// Age is how long the stream keeps a message; 0: as long as there is room. What is older is not lost.
	Age time.Duration
}

// Heal queues again what was recorded as published and is lost, since the partitions are what they are: of the last batches
// before that one. It returns the batch up to which it came; done tells that nothing is left.
func (s *Store) Heal(ctx context.Context, l *lease.Lease, loss Loss, before BatchAt) (h Healed, next BatchAt, done bool, err error) {
	var held int
	var first, id *int64
	batch := &pgx.Batch{}
	s.sql.HealOwn.Queue(batch, pg.Args{"partition": l.Partition})
	s.sql.Heal.Queue(batch, pg.Args{
		"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "kept": int64(loss.Kept), // a stream's sequence never reaches 2^63
		"life": loss.Life, "first": before.First, "id": before.ID, "most": healPage, "age": pg.OrNull(loss.Age),
	}).QueryRow(func(row pgx.Row) error { return row.Scan(&held, &h.Lost, &h.Queued, &first, &id) })
	err = s.db.SendBatch(ctx, batch).Close()
	if err == nil && held == 0 {
		err = errLeaseGone
	}
	switch {
	case err != nil:
		return Healed{}, before, false, fmt.Errorf("queue lost messages again: %w", err)
	case first == nil:
		return h, before, true, nil
	}
	return h, BatchAt{*first, *id}, false, nil
}

// Concede notes a loss that is only reported: up to there the stream had held the partition, whose records have that life now.
func (s *Store) Concede(ctx context.Context, l *lease.Lease, known Known) error {
	if _, err := s.sql.Concede.Exec(ctx, s.db, pg.Args{
		"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "known": int64(known.Fence), "life": known.Life, // below 2^63
	}); err != nil {
		return fmt.Errorf("note what the stream lost: %w", err)
	}
	return nil
}

// FormerPartition is a partition that a resize removed.
type FormerPartition struct {
	ID partition.ID
	// Fence is where the record of its last batch was known to lie in the stream.
	Fence uint64
}

// FormerPartitions are those that the partition's owner answers for.
func (s *Store) FormerPartitions(ctx context.Context, id partition.ID) ([]FormerPartition, error) {
	former, err := pg.Collect(ctx, s.db, s.sql.HealKnown, pg.Args{"partition": id}, pgx.RowToStructByPos[FormerPartition])
	if err != nil {
		return nil, fmt.Errorf("look up former partitions: %w", err)
	}
	return former, nil
}

// EveryPartition lists all that there are and were; nothing if their number never
// changed.
func (s *Store) EveryPartition(ctx context.Context) ([]partition.ID, error) {
	ids, err := pg.Collect(ctx, s.db, s.sql.HealKeys, nil, pgx.RowTo[partition.ID])
	if err != nil {
		return nil, fmt.Errorf("look up partitions: %w", err)
	}
	return ids, nil
}

// HealFormer queues again what was published before the last resize and is lost, from
// the next batches of the history behind after: kept says up to where the stream holds
// what was published under each of the partitions, and age is as in Loss. It returns the last batch that was
// dealt with, 0 when there is none. Other owners may do the same at the same time.
func (s *Store) HealFormer(ctx context.Context, l *lease.Lease, ids []partition.ID, kept []int64, age time.Duration, after int64) (h Healed, last int64, err error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return h, 0, fmt.Errorf("queue lost messages again: %w", err)
	}
	defer conn.Release()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// A resize locks the table before the rows, too.
		for _, query := range []pg.Query{s.sql.HealTable, s.sql.HealLock} {
			if _, err := query.Exec(ctx, tx, nil); err != nil {
				return err
			}
		}
		var held int
		var end *int64
		if err := s.sql.HealFormer.Row(ctx, tx, pg.Args{
			"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "partitions": ids, "kept": kept, "age": pg.OrNull(age), "after": after, "most": healPage,
		}).Scan(&held, &h.Lost, &h.Queued, &end); err != nil {
			return err
		}
		if held == 0 {
			return errLeaseGone
		}
		if end != nil {
			last = *end
			return nil
		}
		_, err := s.sql.HealSettle.Exec(ctx, tx, pg.Args{
			"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "partitions": ids, "kept": kept,
		})
		return err
	})
	if err != nil {
		return Healed{}, 0, fmt.Errorf("queue lost messages again: %w", err)
	}
	return h, last, nil
}

// formerLoss looks for what the stream lost of partitions that are no more and that this one answers for.
func (t *takeover) formerLoss(ctx context.Context) (lost bool, err error) {
	var former []FormerPartition
	err = t.within(ctx, func(ctx context.Context) (err error) {
		former, err = t.store.FormerPartitions(ctx, t.lease.Partition)
		return err
	})
	if err != nil || len(former) == 0 {
		return false, err
	}
	ids := make([]partition.ID, len(former))
	for i, f := range former {
		ids[i] = f.ID
	}
	kept, err := t.keptOf(ctx, ids)
	if err != nil {
		return false, err
	}
	for i, f := range former {
		lost = lost || kept[i] < int64(f.Fence) // a stream's sequence never reaches 2^63
	}
	return lost, nil
}

// keptOf asks up to where the stream holds what was published under each of the partitions.
func (t *takeover) keptOf(ctx context.Context, ids []partition.ID) ([]int64, error) {
	kept := make([]int64, len(ids))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(keptAtOnce)
	for i, id := range ids {
		asking.Go(func() error {
			at, err := t.publisher.Kept(ctx, id)
			kept[i] = int64(at) // a stream's sequence never reaches 2^63
			return err
		})
	}
	return kept, asking.Wait()
}

// keptAtOnce is of how many partitions at once the stream is asked: after a large shrink there are thousands.
const keptAtOnce = 16

// heal queues again what the stream lost: what is older than the last resize first,
// whoever's it was, since the same streams may go on in any of the partitions.
func (t *takeover) heal(ctx context.Context, loss Loss) (all Healed, err error) {
	var ids []partition.ID
	var kept []int64
	if err := t.within(ctx, func(ctx context.Context) (err error) {
		ids, err = t.store.EveryPartition(ctx)
		return err
	}); err != nil {
		return all, err
	}
	if len(ids) > 0 {
		if kept, err = t.keptOf(ctx, ids); err != nil {
			return all, err
		}
		after := int64(0)
		if err := t.healPages(ctx, &all, func(ctx context.Context) (h Healed, done bool, err error) {
			h, after, err = t.store.HealFormer(ctx, t.lease, ids, kept, loss.Age, after)
			return h, after == 0, err
		}); err != nil {
			return all, err
		}
	}
	before := EveryBatch
	return all, t.healPages(ctx, &all, func(ctx context.Context) (h Healed, done bool, err error) {
		h, before, done, err = t.store.Heal(ctx, t.lease, loss, before)
		return h, done, err
	})
}

// healPages gives each page the time of a statement: a long history takes many.
func (t *takeover) healPages(ctx context.Context, all *Healed, page func(context.Context) (Healed, bool, error)) error {
	for n, done := 1, false; !done; n++ {
		if t.lease.Context().Err() != nil {
			return errLeaseGone
		}
		var h Healed
		if err := t.within(ctx, func(ctx context.Context) (err error) {
			h, done, err = page(ctx)
			return err
		}); err != nil {
			return err
		}
		all.Lost, all.Queued = all.Lost+h.Lost, all.Queued+h.Queued
		if n%healReport == 0 {
			t.log.Info("lost messages are being queued again", "partition", t.lease.Partition, "lost", all.Lost, "queued", all.Queued)
		}
	}
	return nil
}
