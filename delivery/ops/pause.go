package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// PauseCommand names partitions to pause or to resume.
type PauseCommand struct {
	// Partitions names them; All takes every one. Exactly one must be given.
	Partitions []partition.ID
	All        bool
	// Actor and Reason are as in Command; the reason may be empty.
	Actor, Reason string
	// DryRun returns the result, but changes nothing.
	DryRun bool
}

// PauseResult is a PauseCommand's result.
type PauseResult struct {
	// Changed partitions were paused or resumed; Unchanged ones were so before.
	Changed, Unchanged []partition.ID
}

// Pause keeps partitions from being claimed until they are resumed, whoever owns them and however often workers start. Messages in flight
// are still settled.
func (o *Operator) Pause(ctx context.Context, c PauseCommand) (PauseResult, error) {
	return o.setPaused(ctx, c, true, "pause")
}

// Resume ends a pause.
func (o *Operator) Resume(ctx context.Context, c PauseCommand) (PauseResult, error) {
	return o.setPaused(ctx, c, false, "resume")
}

type partitionsTarget struct {
	Partitions []partition.ID `json:"partitions"`
	All        bool           `json:"all,omitempty"`
}

type partitionsDetails struct {
	Count     int            `json:"count"`
	Unchanged []partition.ID `json:"unchanged,omitempty"`
}

func (o *Operator) setPaused(ctx context.Context, c PauseCommand, paused bool, name string) (PauseResult, error) {
	if err := c.validate(); err != nil {
		return PauseResult{}, err
	}
	transact := o.write
	if c.DryRun {
		transact = o.outbox.Read
	}
	var r PauseResult
	err := transact(ctx, func(tx pgx.Tx) (err error) {
		if !c.DryRun {
			if err := o.lockPartitions(ctx, tx, c); err != nil {
				return err
			}
		}
		if r, err = o.sortPartitions(ctx, tx, c, paused); err != nil || c.DryRun || len(r.Changed) == 0 {
			return err
		}
		if _, err := o.sql.Pause.Exec(ctx, tx, pg.Args{"partitions": r.Changed, "paused": paused}); err != nil {
			return err
		}
		return o.outbox.Record(ctx, tx, c.Actor, "partition."+name, partitionsTarget{Partitions: r.Changed, All: c.All}, c.Reason,
			partitionsDetails{Count: len(r.Changed), Unchanged: r.Unchanged})
	})
	if err != nil {
		return PauseResult{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (c PauseCommand) validate() error {
	switch {
	case len(c.Partitions) == 0 && !c.All:
		return maintenance.Refuse(FieldSelection, "nothing is selected: give partitions, or all")
	case len(c.Partitions) > 0 && c.All:
		return maintenance.Refuse(FieldSelection, "partitions and all exclude each other")
	}
	return maintenance.CheckWords(c.Actor, c.Reason, false)
}

func (o *Operator) lockPartitions(ctx context.Context, tx pgx.Tx, c PauseCommand) error {
	ids := c.Partitions
	if c.All {
		var err error
		if ids, err = o.queueKeys(ctx, tx); err != nil {
			return err
		}
	}
	return o.outbox.LockPartitions(ctx, tx, ids)
}

// sortPartitions returns the partitions to change, and the others. It refuses unknown ones.
func (o *Operator) sortPartitions(ctx context.Context, tx pgx.Tx, c PauseCommand, paused bool) (PauseResult, error) {
	var wanted []partition.ID
	if !c.All {
		wanted = slices.Compact(slices.Sorted(slices.Values(c.Partitions)))
	}
	rows, err := o.sql.Partitions.Rows(ctx, tx, pg.Args{"partitions": wanted})
	if err != nil {
		return PauseResult{}, err
	}
	var r PauseResult
	var id partition.ID
	var is bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &is}, func() error {
		if is == paused {
			r.Unchanged = append(r.Unchanged, id)
		} else {
			r.Changed = append(r.Changed, id)
		}
		return nil
	}); err != nil {
		return PauseResult{}, err
	}
	var missing []string
	for _, id := range wanted {
		if !slices.Contains(r.Changed, id) && !slices.Contains(r.Unchanged, id) {
			missing = append(missing, fmt.Sprint(id))
		}
	}
	if len(missing) > 0 {
		return PauseResult{}, &InputError{
			Field: FieldPartition, Err: ErrNotFound,
			Problem: fmt.Sprintf("there is no partition %s; nothing was changed", strings.Join(missing, ", ")),
		}
	}
	return r, nil
}
