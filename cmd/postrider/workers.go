package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/admin"
	"github.com/postrider/postrider/ui"
)

type workersCmd struct {
	List  workersListCmd  `cmd:"" default:"withargs" help:"List the workers."`
	Drain workersDrainCmd `cmd:"" help:"Ask a worker to give its partitions back and to take no more."`
}

type workersListCmd struct{ lookFlags }

type workerBody struct {
	ID        uuid.UUID `json:"worker_id"`
	Hostname  string    `json:"hostname"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	State     string    `json:"state"`
	StartedAt time.Time `json:"started_at"`
	Until     time.Time `json:"heartbeat_until"`
	Left      float64   `json:"heartbeat_left_seconds"`
	Owned     int       `json:"owned_partitions"`
	Desired   int       `json:"desired_partitions"`
	// DrainRequestedAt is null unless an operator asked the worker to drain.
	DrainRequestedAt *time.Time `json:"drain_requested_at"`
}

// Run lists the workers.
func (c *workersListCmd) Run(s *session) error {
	snapshot, _, err := c.look(s.ctx)
	if err != nil {
		return err
	}
	bodies := []workerBody{}
	var rows []table.Row
	for _, w := range snapshot.Workers {
		bodies = append(bodies, workerBody{
			ID: w.ID, Hostname: w.Hostname, PID: w.PID, Version: w.Version, State: string(w.State),
			StartedAt: w.StartedAt, Until: w.HeartbeatUntil, Left: w.HeartbeatLeft.Seconds(), Owned: w.Owned, Desired: w.Desired,
			DrainRequestedAt: w.DrainRequestedAt,
		})
		rows = append(rows, table.Row{
			w.ID, w.Hostname, w.PID, w.Version, stateShown(w), w.HeartbeatLeft.Round(100 * time.Millisecond), w.Owned, w.Desired,
		})
	}
	if c.JSON {
		return writeJSON(s.stdout, bodies)
	}
	writeTable(s.stdout, table.Row{"worker", "host", "pid", "version", "state", "ttl left", "owned", "desired"}, rows)
	return nil
}

// stateShown tells of a drain from the moment it was asked for.
func stateShown(w ui.Worker) string {
	if w.DrainRequestedAt != nil && w.State == ui.WorkerActive {
		return "active, asked to drain"
	}
	return string(w.State)
}

type workersDrainCmd struct {
	adminFlags
	actorFlags
	Worker string `arg:"" name:"worker" help:"The worker's id, as 'workers' shows it."`
	DryRun bool   `help:"Say what would be done, and do nothing." env:"-"`
}

// Help explains below the flags.
func (c *workersDrainCmd) Help() string {
	return `The worker hands its partitions over in good order and goes on running without any. Started again, it takes
part as a new worker.

Example:
  postrider workers drain 0199a2f0-5b1c-7c00-8000-00000a1b2c3d --reason 'the machine is being repaired'`
}

type drainBody struct {
	Action    string    `json:"action"`
	Worker    uuid.UUID `json:"worker_id"`
	Requested bool      `json:"requested"`
	Others    int       `json:"active_others"`
	DryRun    bool      `json:"dry_run"`
}

// Run asks the worker.
func (c *workersDrainCmd) Run(s *session) error {
	id, err := uuid.Parse(c.Worker)
	if err != nil || id == uuid.Nil {
		return fmt.Errorf("%w: WORKER must be a worker's id (UUID), got %q", errRefused, c.Worker)
	}
	op, done, err := c.operator(s)
	if err != nil {
		return err
	}
	defer done()
	r, err := op.Drain(s.ctx, admin.DrainCommand{Worker: id, Actor: c.actor(), Reason: c.Reason, DryRun: c.DryRun})
	if err != nil {
		return inputRefused(err)
	}
	if c.JSON {
		return writeJSON(s.stdout, drainBody{Action: "drain", Worker: id, Requested: r.Requested, Others: r.Others, DryRun: c.DryRun})
	}
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
	_, err = fmt.Fprintln(s.stdout, text)
	return err
}
