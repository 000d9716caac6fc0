package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui"
)

type partitionsCmd struct {
	List    partitionsListCmd    `cmd:"" help:"List partitions with lease and backlog."`
	History partitionsHistoryCmd `cmd:"" help:"Tell who had which partition, and since when."`
	Sync    partitionsSyncCmd    `cmd:"" help:"Add the rows of outbox_partitions that are missing."`
	Pause   partitionsPauseCmd   `cmd:"" help:"Deliver nothing of partitions until they are resumed."`
	Resume  partitionsResumeCmd  `cmd:"" help:"End the pause of partitions."`
	Resize  partitionsResizeCmd  `cmd:"" help:"Change the number of partitions while producers and workers run."`
}

type partitionsListCmd struct{ lookFlags }

// Run lists the partitions.
func (c *partitionsListCmd) Run(s *session) error {
	snapshot, _, err := c.look(s.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.stdout, snapshot.PartitionBodies())
	}
	var rows []table.Row
	for _, p := range snapshot.Partitions {
		owner, left := "free", "–"
		if p.Owned() {
			owner, left = p.Owner.String(), p.LeaseLeft.Round(100*time.Millisecond).String()
		}
		rows = append(rows, table.Row{
			p.Number, owner, left, p.Epoch, p.Pending, p.Failed, p.Blocked, p.Dead, p.Scheduled, p.OldestPending.Round(time.Millisecond),
			whyShown(p, snapshot.Why(p)),
		})
	}
	writeTable(s.stdout, table.Row{"partition", "owner", "lease left", "epoch", "pending", "failed", "blocked", "dead", "scheduled", "oldest", "why"}, rows)
	return nil
}

// whyShown says why events of a partition wait, and of a pause also while none do.
func whyShown(p ui.Partition, why []string) string {
	if len(why) == 0 && p.PausedAt != nil {
		return "paused since " + p.PausedAt.UTC().Format(time.DateTime) + " UTC"
	}
	return redact(strings.Join(why, "; "))
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
	store, err := lease.NewStore(s.ctx, pool, c.Schema)
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
