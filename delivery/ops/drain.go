package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// DrainCommand makes or withdraws a request to drain.
type DrainCommand struct {
	// Worker is its id, as the table outbox_workers has it. Required.
	Worker uuid.UUID
	// Actor and Reason are as in Command; the reason may be empty.
	Actor, Reason string
	// DryRun returns the result, but changes nothing.
	DryRun bool
}

// DrainResult is a DrainCommand's result.
type DrainResult struct {
	// Requested is false where the worker had been asked before, and nothing was changed.
	Requested bool
	// Others counts the live active workers that take the partitions over; 0: nobody delivers them until a worker starts.
	Others int
}

// drainTarget and drainDetails are a drain's row in the audit.
type drainTarget struct {
	Worker uuid.UUID `json:"worker_id"`
}

type drainDetails struct {
	Hostname string `json:"hostname"`
	PID      int    `json:"pid"`
	Others   int    `json:"others"`
}

// Drain asks a worker to give its partitions back, in good order, and to take no more. The worker reads that within a second or so and
// runs on without partitions, until Undrain, or until it starts again as a new worker. An unknown worker is ErrNotFound, one whose
// heartbeat ran out ErrWrongState.
func (o *Operator) Drain(ctx context.Context, c DrainCommand) (DrainResult, error) {
	return o.setDrain(ctx, c, o.sql.Drain, "drain")
}

// Undrain takes the request back: the worker reads that as quickly, and takes part again. Requested is false where it had not been asked to
// drain, also for one that drains because it is being stopped.
func (o *Operator) Undrain(ctx context.Context, c DrainCommand) (DrainResult, error) {
	return o.setDrain(ctx, c, o.sql.Undrain, "undrain")
}

func (o *Operator) setDrain(ctx context.Context, c DrainCommand, query pg.Query, name string) (DrainResult, error) {
	if c.Worker == uuid.Nil {
		return DrainResult{}, maintenance.Refuse(FieldWorker, "an id is required")
	}
	if err := maintenance.CheckWords(c.Actor, c.Reason, false); err != nil {
		return DrainResult{}, err
	}
	transact := o.write
	if c.DryRun {
		transact = o.outbox.Read
	}
	var r DrainResult
	err := transact(ctx, func(tx pgx.Tx) (err error) {
		var d drainDetails
		if r, d, err = o.lookAtWorker(ctx, tx, c.Worker, name == "undrain"); err != nil || c.DryRun || !r.Requested {
			return err
		}
		tag, err := query.Exec(ctx, tx, pg.Args{"worker": c.Worker})
		if err != nil {
			return err
		}
		if r.Requested = tag.RowsAffected() == 1; !r.Requested { // somebody else was faster
			return nil
		}
		return o.outbox.Record(ctx, tx, c.Actor, "worker."+name, drainTarget{Worker: c.Worker}, c.Reason, d)
	})
	if err != nil {
		return DrainResult{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (o *Operator) lookAtWorker(ctx context.Context, tx pgx.Tx, id uuid.UUID, undo bool) (DrainResult, drainDetails, error) {
	var d drainDetails
	var state string
	var live bool
	var asked *time.Time
	found, err := notFound(o.sql.Worker.Row(ctx, tx, pg.Args{"worker": id, "steady": pg.Steady}).Scan(&d.Hostname, &d.PID, &state, &live, &asked, &d.Others))
	switch {
	case err != nil:
		return DrainResult{}, d, err
	case !found:
		return DrainResult{}, d, &InputError{
			Field: FieldWorker, Problem: fmt.Sprintf("there is no worker %s; nothing was changed", id), Err: ErrNotFound,
		}
	case !live:
		return DrainResult{}, d, &InputError{
			Field: FieldWorker, Err: ErrWrongState,
			Problem: fmt.Sprintf("%s does not answer: its heartbeat ran out, and its partitions go to others by themselves", id),
		}
	}
	requested := asked == nil && state == "active"
	if undo {
		requested = asked != nil
	}
	return DrainResult{Requested: requested, Others: d.Others}, d, nil
}
