package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// event is a selected event, as far as a pointer row needs it.
type event struct {
	Sequence int64
	Stream   string
	Topic    string
	Key      string
}

// next returns the replay's next events behind that position, and the end of its look.
func (r *run) next(ctx context.Context, tx pgx.Tx, position int64, most int) (events []event, upTo int64, err error) {
	if err := r.sql.Following.Row(ctx, tx, pg.Args{"after": position, "upto": r.job.Last}).Scan(&position); err != nil {
		return nil, 0, fmt.Errorf("look where events go on: %w", err)
	}
	upTo = r.job.windowEnd(position, pageWindow)
	args := r.job.selected(pg.Args{"id": r.id, "after": position, "upto": upTo, "limit": most})
	if events, err = pg.Collect(ctx, tx, r.page(r.job), args, pgx.RowToStructByPos[event]); err != nil {
		return nil, 0, fmt.Errorf("read the next events: %w", err)
	}
	if len(events) >= most {
		upTo = events[len(events)-1].Sequence
	}
	return events, upTo, nil
}

// pageWindow bounds the sequences of one step.
const pageWindow = 50_000

// liveStep queues the next events again and moves the position, in one transaction.
func (r *run) liveStep(ctx context.Context) (done step, err error) {
	err = r.outbox.Write(ctx, func(tx pgx.Tx) error {
		if err := r.outbox.LockTable(ctx, tx); err != nil {
			return err
		}
		position, generation, err := r.hold(ctx, tx)
		if err != nil {
			return err
		}
		events, upTo, err := r.next(ctx, tx, position, min(r.stepSize(), r.cfg.MaxPending))
		if err != nil {
			return err
		}
		n, waiting, err := r.enqueue(ctx, tx, events, generation)
		if err != nil {
			return err
		}
		if n < len(events) {
			upTo = position
			if n > 0 {
				upTo = events[n-1].Sequence
			}
		}
		done = step{events: int64(n), waiting: waiting, finished: upTo >= r.job.Last}
		return r.advance(ctx, tx, moved{position: upTo, replayed: int64(n), waiting: waiting})
	})
	r.looked.rows += done.events
	return done, err
}

// enqueue inserts pointer rows for the events, up to the first one that has a row already, and returns how many.
func (r *run) enqueue(ctx context.Context, tx pgx.Tx, events []event, generation int) (n int, waiting string, err error) {
	if len(events) == 0 {
		return 0, "", nil
	}
	all, err := r.outbox.Partitions(ctx, tx)
	if err != nil {
		return 0, "", err
	}
	count := partition.Count(len(all)) // at most 32767
	ids, sequences := make([]partition.ID, len(events)), make([]int64, len(events))
	streams, topics := make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		ids[i], sequences[i], streams[i], topics[i] = partition.Of(e.Key, count), e.Sequence, e.Stream, e.Topic
	}
	if err := r.outbox.LockPartitions(ctx, tx, ids); err != nil {
		return 0, "", err
	}
	n = len(events)
	rows, err := r.sql.Occupied.Rows(ctx, tx, pg.Args{"partitions": ids, "sequences": sequences})
	if err != nil {
		return 0, "", err
	}
	var sequence int64
	var state string
	if _, err := pgx.ForEachRow(rows, []any{&sequence, &state}, func() error {
		n = slices.Index(sequences, sequence)
		waiting = fmt.Sprintf("event %d is in the outbox again (%s)", sequence, state)
		return nil
	}); err != nil {
		return 0, "", err
	}
	tag, err := r.sql.Enqueue.Exec(ctx, tx, pg.Args{
		"partitions": ids[:n], "sequences": sequences[:n], "streams": streams[:n], "topics": topics[:n],
		"generation": generation, "count": int(count), "id": r.id,
	})
	if err != nil {
		return 0, "", fmt.Errorf("queue events again: %w", err)
	}
	if tag.RowsAffected() != int64(n) {
		return 0, "", errResized
	}
	return n, waiting, nil
}

// errResized undoes a step that found another number of partitions half-way.
var errResized = errors.New("the partitions were resized meanwhile")
