package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
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
	Trim    partitionsTrimCmd    `cmd:"" help:"Remove old records from the stream, where workers may not."`
}

type partitionsListCmd struct{ lookFlags }

func (c *partitionsListCmd) Run(s *session) error {
	snapshot, _, err := c.look(s.ctx)
	if err != nil {
		return err
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
	return answerRows(s.stdout, c.JSON, snapshot.PartitionBodies(), table.Row{"partition", "owner", "lease left", "epoch", "pending", "failed", "blocked", "dead", "scheduled", "oldest", "why"}, rows)
}

// whyShown returns why events of a partition wait, and a pause even where none wait.
func whyShown(p ui.Partition, why []string) string {
	if len(why) == 0 && p.PausedAt != nil {
		return "paused since " + p.PausedAt.UTC().Format(time.DateTime) + " UTC"
	}
	return redact(strings.Join(why, "; "))
}

type partitionsSyncCmd struct {
	databaseFlags
	Prune  bool `help:"Remove rows above the partition count, too; only those without lease and without messages." env:"-"`
	DryRun bool `help:"Say what would be done, and do nothing." env:"-"`
	JSON   bool `help:"Print one JSON object." name:"json"`
}

// Run makes outbox_partitions hold exactly the stored number of rows.
func (c *partitionsSyncCmd) Run(s *session) error {
	pool, info, err := c.outbox(s.ctx, "postrider partitions", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := lease.NewStore(s.ctx, pool, c.Schema)
	if err != nil {
		return err
	}
	added, removed, err := store.Sync(s.ctx, info.Partitions, c.Prune, c.DryRun)
	if err != nil {
		return err
	}
	done := "added %d, removed %d rows of outbox_partitions; %d partitions"
	if c.DryRun {
		done = "would add %d, would remove %d rows of outbox_partitions; %d partitions"
	}
	return answer(s.stdout, c.JSON, map[string]any{"partitions": info.Partitions, "added": added, "removed": removed, "dry_run": c.DryRun},
		fmt.Sprintf(done, added, removed, info.Partitions))
}

type partitionsTrimCmd struct {
	databaseFlags
	natsFlags
	streamFlag

	Keep uint64 `help:"How many records of each partition stay, at least 100." default:"1000" env:"-"`
	JSON bool   `help:"Print one JSON object." name:"json"`
}

// leastRecords bounds --keep from below, above any number that a new owner may read.
const leastRecords = 100

func (c *partitionsTrimCmd) Help() string {
	return `Each batch leaves a record in the stream. Workers that may purge it remove those
that nobody reads any more; this command does it for others, from time to time, while they run.
It takes the newest records for those that are needed: keep more than a partition's batches
since a standby, or a backup, that may take the database's place.

Example:
  postrider partitions trim --keep 1000`
}

// Run trims the records of each partition, also of partitions that a resize removed.
func (c *partitionsTrimCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Keep < leastRecords {
		return fmt.Errorf("%w: --keep must be at least %d, got %d", errRefused, leastRecords, c.Keep)
	}
	pool, info, err := c.outbox(s.ctx, "postrider trim", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	of := streamFlags{streamFlag: c.streamFlag}
	of.complete(info)
	nc, apiPrefix, err := c.connect("postrider trim", s.logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	removed, left, err := natspub.NewRecords(nc, apiPrefix, of.Stream, info.control()).Trim(s.ctx, c.Keep)
	if err != nil {
		return err
	}
	return answer(s.stdout, c.JSON, map[string]uint64{"removed": removed, "left": left}, fmt.Sprintf("removed %s, %d left", counted(int64(removed), "record"), left))
}

// manyRecords is the number of a partition's records that warns where nobody removes them.
const manyRecords = 10_000

// recordsFinding reports the number of records in the stream, and whether this user may remove old ones.
func recordsFinding(ctx context.Context, records *natspub.Records) finding {
	const check = "records"
	held, err := records.Held(ctx)
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	var all, most uint64
	for _, n := range held {
		all, most = all+n, max(most, n)
	}
	f := finding{check, levelOK, fmt.Sprintf("%s of %s, at most %d of one; this user may remove old ones", counted(int64(all), "record"), counted(len(held), "partition"), most)}
	if err := records.MayTrim(ctx); err != nil {
		if most > manyRecords {
			f.Level = levelWarning
		}
		if !errors.Is(err, delivery.ErrConfiguration) {
			f.Level = levelError
		}
		f.Detail = fmt.Sprintf("%s of %s, at most %d of one; this user may not remove old ones: if workers may not either, run `postrider partitions trim` now and then (%s)",
			counted(int64(all), "record"), counted(len(held), "partition"), most, redact(err.Error()))
	}
	return f
}
