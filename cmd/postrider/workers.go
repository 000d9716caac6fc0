package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui"
)

type workersCmd struct {
	List    workersListCmd    `cmd:"" default:"withargs" help:"List the workers."`
	Drain   workersDrainCmd   `cmd:"" help:"Ask a worker to give its partitions back and to take no more."`
	Undrain workersUndrainCmd `cmd:"" help:"Take a drain back: the worker takes part again."`
}

type workersListCmd struct{ lookFlags }

func (c *workersListCmd) Run(s *session) error {
	snapshot, _, err := c.look(s.ctx)
	if err != nil {
		return err
	}
	var rows []table.Row
	for _, w := range snapshot.Workers {
		rows = append(rows, table.Row{
			w.ID, w.Hostname, w.PID, w.Version, stateShown(w), w.HeartbeatLeft.Round(100 * time.Millisecond), w.Owned, w.Desired,
		})
	}
	return answerRows(s.stdout, c.JSON, snapshot.WorkerBodies(), table.Row{"worker", "host", "pid", "version", "state", "ttl left", "owned", "desired"}, rows)
}

// stateShown names a drain from its request on.
func stateShown(w ui.Worker) string {
	if w.DrainRequestedAt != nil && w.State == ui.WorkerActive {
		return "active, asked to drain"
	}
	if w.Condition != nil && w.State != ui.WorkerStale {
		return string(w.State) + ", " + string(w.Condition.Reason)
	}
	return string(w.State)
}

type drainFlags struct {
	operatorFlags
	actorFlags
	Worker string `arg:"" name:"worker" help:"The worker's id, or enough of its beginning or end to name it alone."`
	DryRun bool   `help:"Say what would be done, and do nothing." env:"-"`
}

type workersDrainCmd struct{ drainFlags }

func (c *workersDrainCmd) Help() string {
	return `The worker hands its partitions over in good order and goes on running without any, until 'workers undrain'.
Started again, it takes part as a new worker.

Example:
  postrider workers drain 0199a2f0-5b1c-7c00-8000-00000a1b2c3d --reason 'the machine is being repaired'`
}

func (c *workersDrainCmd) Run(s *session) error {
	return c.set(s, "drain", (*ops.Operator).Drain, func(id uuid.UUID, r ops.DrainResult) string {
		text := "asked " + id.String() + " to drain"
		switch {
		case !r.Requested:
			text = id.String() + " is draining already"
		case c.DryRun:
			text = "would ask " + id.String() + " to drain"
		}
		if r.Others == 0 {
			text += "; no other worker is active, nobody delivers its partitions"
		}
		return text
	})
}

type workersUndrainCmd struct{ drainFlags }

func (c *workersUndrainCmd) Help() string {
	return `The worker takes its share of the partitions again.

Example:
  postrider workers undrain 1b2c3d --reason 'the machine is back'`
}

func (c *workersUndrainCmd) Run(s *session) error {
	return c.set(s, "undrain", (*ops.Operator).Undrain, func(id uuid.UUID, r ops.DrainResult) string {
		switch {
		case !r.Requested:
			return "nobody has asked " + id.String() + " to drain"
		case c.DryRun:
			return id.String() + " would take part again"
		}
		return id.String() + " takes part again"
	})
}

func (c *drainFlags) set(s *session, action string, do func(*ops.Operator, context.Context, ops.DrainCommand) (ops.DrainResult, error),
	told func(uuid.UUID, ops.DrainResult) string,
) error {
	op, done, err := c.operator(s)
	if err != nil {
		return err
	}
	defer done()
	id, err := op.FindWorker(s.ctx, c.Worker)
	if err != nil {
		return inputRefused(err)
	}
	r, err := do(op, s.ctx, ops.DrainCommand{Worker: id, Actor: c.actor(), Reason: c.Reason, DryRun: c.DryRun})
	if err != nil {
		return inputRefused(err)
	}
	return answer(s.stdout, c.JSON, r.Body(action, id, c.DryRun), told(id, r))
}
