package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Cancel settles scheduled messages without publishing them and lets their streams go
// on; they are shown as discarded. One whose time came meanwhile is left to the workers.
func (o *Operator) Cancel(ctx context.Context, c Command) (Changed, error) {
	return o.run(ctx, c, operation{
		name: "cancel", states: []State{Scheduled}, reason: true, query: o.sql.Settle,
		extra: func(s State) pg.Args { return pg.Args{"discarded": true, "state": s} },
	})
}

// Move gives scheduled messages another time, which may have come already. One whose time came meanwhile is left to the workers.
func (o *Operator) Move(ctx context.Context, c Command, to time.Time) (Changed, error) {
	if to.IsZero() {
		return Changed{}, fmt.Errorf("move: %w", maintenance.Refuse(FieldAt, "a time is required"))
	}
	return o.run(ctx, c, operation{
		name: "move", states: []State{Scheduled}, query: o.sql.Move, extra: func(State) pg.Args { return pg.Args{"at": to} }, to: &to,
	})
}

// held is a row that was taken from the workers: until when it waited, nil for ever, and until when it is held.
type held struct {
	key
	until *time.Time
	end   pgtype.Timestamptz
}

// holdRows keeps rows that wait for their time from being published when it comes.
//
// A worker publishes rows that were due when it looked, without notice. So rows are taken out of its reach first. If that commit precedes
// their time, nobody has begun with them.
func (o *Operator) holdRows(ctx context.Context, tx pgx.Tx, selected []key) (map[int64]held, error) {
	ids, sequences := columns(selected)
	rows, err := o.sql.Hold.Rows(ctx, tx, pg.Args{"partitions": ids, "sequences": sequences})
	if err != nil {
		return nil, err
	}
	list := map[int64]held{}
	var h held
	_, err = pgx.ForEachRow(rows, []any{&h.Partition, &h.Sequence, &h.until, &h.end}, func() error { list[h.Sequence] = h; return nil })
	return list, err
}

// settlePatience bounds the time in which an interrupted command lets go of its rows.
const settlePatience = 10 * time.Second

// settleHeld changes held rows, and lets those go whose time came before they were held.
func (o *Operator) settleHeld(ctx context.Context, c Command, op operation, list map[int64]held) (done []changed, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
	defer cancel()
	err = o.write(ctx, func(tx pgx.Tx) error {
		var now time.Time
		if err := o.sql.Now.Row(ctx, tx, nil).Scan(&now, nil); err != nil {
			return err
		}
		ours, late, err := o.findHeld(ctx, tx, list, now)
		if err != nil {
			return err
		}
		if len(late) > 0 {
			if err := o.letGo(ctx, tx, late, list); err != nil {
				return err
			}
		}
		if len(ours) > 0 {
			op.held = list
			done, _, err = o.change(ctx, tx, c, op, ours)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%d messages wait up to 5 minutes longer than they were to)", err, len(list))
	}
	return done, nil
}

// findHeld locks the held rows' partitions, which a resize may have changed, and separates the rows held before their time came.
func (o *Operator) findHeld(ctx context.Context, tx pgx.Tx, list map[int64]held, now time.Time) (ours, late []key, err error) {
	if err := o.outbox.LockTable(ctx, tx); err != nil {
		return nil, nil, err
	}
	in, err := o.queueKeys(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	var sequences []int64
	for sequence := range list {
		sequences = append(sequences, sequence)
	}
	rows, err := o.sql.States.Rows(ctx, tx, pg.Args{"in": in, "sequences": sequences})
	if err != nil {
		return nil, nil, err
	}
	var all []partition.ID
	var k key
	var state State
	if _, err := pgx.ForEachRow(rows, []any{&k.Sequence, &state, &k.Partition}, func() error {
		all = append(all, k.Partition)
		if until := list[k.Sequence].until; until != nil && !now.Before(*until) {
			late = append(late, k)
		} else {
			ours = append(ours, k)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	return ours, late, o.outbox.LockPartitions(ctx, tx, all)
}

func (o *Operator) letGo(ctx context.Context, tx pgx.Tx, late []key, list map[int64]held) error {
	ids, sequences := columns(late)
	until, ends := holds(late, list)
	_, err := o.sql.Unhold.Exec(ctx, tx, pg.Args{"partitions": ids, "sequences": sequences, "held": ends, "until": until})
	return err
}

// holds returns the ends of the rows' waits and of their holds, as parameters.
func holds(rows []key, list map[int64]held) (until []*time.Time, ends []pgtype.Timestamptz) {
	for _, k := range rows {
		until, ends = append(until, list[k.Sequence].until), append(ends, list[k.Sequence].end)
	}
	return until, ends
}
