package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/lease"
)

type partitionsCmd struct {
	List   partitionsListCmd   `cmd:"" help:"List partitions with lease and backlog."`
	Sync   partitionsSyncCmd   `cmd:"" help:"Add the rows of outbox_partitions that are missing."`
	Pause  partitionsPauseCmd  `cmd:"" help:"Deliver nothing of partitions until they are resumed."`
	Resume partitionsResumeCmd `cmd:"" help:"End the pause of partitions."`
	Resize partitionsResizeCmd `cmd:"" help:"Change the number of partitions while producers and workers run."`
}

type partitionsListCmd struct{ lookFlags }

type partitionBody struct {
	Partition     int        `json:"partition_key"`
	Owner         *uuid.UUID `json:"lease_owner"`
	LeaseLeft     float64    `json:"lease_left_seconds"`
	Epoch         int64      `json:"lease_epoch"`
	Delivered     int64      `json:"delivered"`
	Pending       int64      `json:"pending"`
	Failed        int64      `json:"failed"`
	Blocked       int64      `json:"blocked"`
	Dead          int64      `json:"dead"`
	Scheduled     int64      `json:"scheduled"`
	OldestPending float64    `json:"oldest_pending_seconds"`
	PausedAt      *time.Time `json:"paused_at"`
}

// Run lists the partitions.
func (c *partitionsListCmd) Run(s *session) error {
	snapshot, _, err := c.look(s.ctx)
	if err != nil {
		return err
	}
	bodies := []partitionBody{}
	var rows []table.Row
	for _, p := range snapshot.Partitions {
		b := partitionBody{
			Partition: p.Number, Epoch: p.Epoch, Delivered: p.Delivered, Pending: p.Pending, Failed: p.Failed,
			Blocked: p.Blocked, Dead: p.Dead, Scheduled: p.Scheduled, OldestPending: p.OldestPending.Seconds(), PausedAt: p.PausedAt,
		}
		owner, left := "free", "–"
		if p.Owned() {
			b.Owner, b.LeaseLeft = &p.Owner, p.LeaseLeft.Seconds()
			owner, left = p.Owner.String(), p.LeaseLeft.Round(100*time.Millisecond).String()
		}
		bodies = append(bodies, b)
		rows = append(rows, table.Row{
			p.Number, owner, left, p.Epoch, p.Pending, p.Failed, p.Blocked, p.Dead, p.OldestPending.Round(time.Millisecond),
		})
	}
	if c.JSON {
		return writeJSON(s.stdout, bodies)
	}
	writeTable(s.stdout, table.Row{"partition", "owner", "lease left", "epoch", "pending", "failed", "blocked", "dead", "oldest"}, rows)
	return nil
}

type partitionsSyncCmd struct {
	databaseFlags
	Prune  bool `help:"Remove rows above the partition count, too; only those without lease and without messages."`
	DryRun bool `help:"Say what would be done, and do nothing."`
	JSON   bool `help:"Print one JSON object." name:"json"`
}

// Run makes outbox_partitions hold exactly the stored number of rows.
func (c *partitionsSyncCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	pool, err := c.pool(s.ctx, "postrider partitions", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	info, err := checkSchema(s.ctx, pool, c.Schema, 0)
	if err != nil {
		return err
	}
	store, err := lease.NewStore(pool, c.Schema)
	if err != nil {
		return err
	}
	added, removed, err := store.Sync(s.ctx, info.Partitions, c.Prune, c.DryRun)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.stdout, map[string]any{
			"partitions": info.Partitions, "added": added, "removed": removed, "dry_run": c.DryRun,
		})
	}
	done := "added %d, removed %d rows of outbox_partitions; %d partitions\n"
	if c.DryRun {
		done = "would add %d, would remove %d rows of outbox_partitions; %d partitions\n"
	}
	_, err = fmt.Fprintf(s.stdout, done, added, removed, info.Partitions)
	return err
}
