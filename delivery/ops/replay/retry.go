package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

type revived struct {
	Partition  partition.ID `json:"partition_key"`
	Sequence   int64        `json:"global_sequence"`
	Stream     string       `json:"stream_id"`
	Attempts   int          `json:"attempts"`
	Generation int          `json:"generation"`
	LastError  string       `json:"last_error,omitempty"`
}

// retryStep has the next chosen rows begin anew where they lie.
func (r *run) retryStep(ctx context.Context) (done step, err error) {
	err = r.outbox.Write(ctx, func(tx pgx.Tx) error {
		if err := r.outbox.LockTable(ctx, tx); err != nil {
			return err
		}
		position, _, err := r.hold(ctx, tx)
		if err != nil {
			return err
		}
		most := min(r.stepSize(), r.cfg.MaxPending)
		chosen, ids, sequences, err := r.chosen(ctx, tx, position, most)
		if err != nil {
			return err
		}
		var changed []revived
		if len(ids) > 0 {
			if changed, err = r.revive(ctx, tx, ids, sequences); err != nil {
				return err
			}
		}
		upTo := r.job.Last
		if len(chosen) == most {
			upTo = chosen[most-1]
		}
		done = step{events: int64(len(chosen)), finished: len(chosen) < most}
		return r.advance(ctx, tx, moved{position: upTo, replayed: int64(len(changed)), gone: int64(len(chosen) - len(changed))})
	})
	r.looked.rows += done.events
	return done, err
}

// chosen reads the retry's next rows: their sequences, and the places of those that are still dead or failed.
func (r *run) chosen(ctx context.Context, tx pgx.Tx, position int64, most int) (all []int64, ids []partition.ID, sequences []int64, err error) {
	in, err := r.outbox.Partitions(ctx, tx)
	if err != nil {
		return nil, nil, nil, err
	}
	rows, err := r.sql.Chosen.Rows(ctx, tx, pg.Args{"id": r.id, "after": position, "limit": most, "partitions": in})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read the next rows: %w", err)
	}
	var sequence int64
	var id *partition.ID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &id}, func() error {
		all = append(all, sequence)
		if id != nil {
			ids, sequences = append(ids, *id), append(sequences, sequence)
		}
		return nil
	})
	return all, ids, sequences, err
}

func (r *run) revive(ctx context.Context, tx pgx.Tx, ids []partition.ID, sequences []int64) ([]revived, error) {
	if err := r.outbox.LockPartitions(ctx, tx, ids); err != nil {
		return nil, err
	}
	changed, err := pg.Collect(ctx, tx, r.sql.Retry, pg.Args{"partitions": ids, "sequences": sequences}, pgx.RowToStructByPos[revived])
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	var in []partition.ID
	streams, touched := make([]string, len(changed)), make([]int64, len(changed))
	for i, c := range changed {
		in, streams[i], touched[i] = append(in, c.Partition), c.Stream, c.Sequence
	}
	if err := r.outbox.Promote(ctx, tx, in, streams); err != nil {
		return nil, err
	}
	return changed, r.outbox.Record(ctx, tx, r.job.Actor, "replay.retry", struct {
		ID         int64          `json:"replay"`
		Sequences  []int64        `json:"sequences"`
		Partitions []partition.ID `json:"partitions"`
	}{r.id, touched, slices.Compact(in)}, r.job.Reason, struct {
		Count    int       `json:"count"`
		Messages []revived `json:"messages"`
	}{len(changed), changed})
}
