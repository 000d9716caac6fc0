package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// healPage bounds the batches of the history that one transaction heals, which
// marks wait for.
const healPage = 100

// Heal queues again what was recorded as published and is lost, since the partitions are what they are: of the last batches
// before that one. It returns the batch up to which it came; done: nothing is left.
func (s *Store) Heal(ctx context.Context, l *lease.Lease, loss delivery.Loss, before delivery.BatchAt) (h delivery.Healed, next delivery.BatchAt, done bool, err error) {
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
		err = delivery.ErrLeaseGone
	}
	switch {
	case err != nil:
		return delivery.Healed{}, before, false, fmt.Errorf("queue lost messages again: %w", err)
	case first == nil:
		return h, before, true, nil
	}
	return h, delivery.BatchAt{First: *first, ID: *id}, false, nil
}

// Concede notes a loss that is only reported: up to there the stream had held the partition, whose records have that life now.
func (s *Store) Concede(ctx context.Context, l *lease.Lease, known delivery.Known) error {
	if _, err := s.sql.Concede.Exec(ctx, s.db, pg.Args{
		"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "known": int64(known.Fence), "life": known.Life, // below 2^63
	}); err != nil {
		return fmt.Errorf("note what the stream lost: %w", err)
	}
	return nil
}

// FormerPartitions are those that the partition's owner answers for.
func (s *Store) FormerPartitions(ctx context.Context, id partition.ID) ([]delivery.FormerPartition, error) {
	former, err := pg.Collect(ctx, s.db, s.sql.HealKnown, pg.Args{"partition": id}, pgx.RowToStructByPos[delivery.FormerPartition])
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
func (s *Store) HealFormer(ctx context.Context, l *lease.Lease, ids []partition.ID, kept []int64, age time.Duration, after int64) (h delivery.Healed, last int64, err error) {
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
			return delivery.ErrLeaseGone
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
		return delivery.Healed{}, 0, fmt.Errorf("queue lost messages again: %w", err)
	}
	return h, last, nil
}
