package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

type partitionsHistoryCmd struct {
	databaseFlags
	Partition *int    `arg:"" optional:"" name:"partition" help:"Number of the partition; without it all."`
	Since     *string `help:"Only changes since then: 2026-01-02T03:04:05Z, or 10m: ten minutes ago." placeholder:"WHEN" env:"-"`
	Until     *string `help:"Only changes until then." placeholder:"WHEN" env:"-"`
	Limit     int     `help:"Most changes." default:"50" env:"-"`
	JSON      bool    `help:"Print JSON." name:"json"`
}

func (c *partitionsHistoryCmd) Help() string {
	return `The newest changes come first. Who had a partition at some time is told by its last
change until then. The newest 20,000 changes are kept.

  taken        it had no owner that is known
  moved        one worker had given it back, another took it
  taken-over   its owner had been silent until its lease ended; others took over
  retaken      the worker that had had it last took it again
  released     its owner gave it back
  resizing     'partitions resize' took it
  removed      'partitions resize' or 'sync --prune' removed it
  solo         a worker with --no-leasing took it; nothing tells when that ended

Examples:
  postrider partitions history --since 8h
  postrider partitions history 17
  postrider partitions history 17 --until 2026-01-02T03:12:00Z --limit 1`
}

func (c *partitionsHistoryCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	if _, err := c.query(time.Now()); err != nil {
		return err
	}
	pool, info, err := c.outbox(s.ctx, "postrider partitions", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := lease.NewStore(s.ctx, pool, c.Schema)
	if err != nil {
		return err
	}
	now, err := info.present(s.ctx, pool, c.Schema)
	if err != nil {
		return err
	}
	q, err := c.query(now)
	if err != nil {
		return err
	}
	history, err := store.History(s.ctx, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.stdout, ui.ChangeBodies(history.Changes))
	}
	if len(history.Changes) > 0 {
		writeHistory(s, history.Changes, q.Partition)
	}
	begins := "nobody has had a partition yet"
	if !history.Begins.IsZero() {
		begins = "the history begins " + history.Begins.UTC().Format(time.DateTime) + " UTC"
	}
	if len(history.Changes) == 0 {
		begins = "no change of ownership was found; " + begins
	}
	_, err = fmt.Fprintln(s.stdout, begins)
	return err
}

func (c *partitionsHistoryCmd) query(now time.Time) (q lease.HistoryQuery, err error) {
	if c.Limit < 1 {
		return q, fmt.Errorf("%w: --limit must be at least 1, got %d", errRefused, c.Limit)
	}
	q.Limit = c.Limit
	if c.Partition != nil {
		ids, err := partitionIDs("the partition", []int{*c.Partition})
		if err != nil {
			return q, err
		}
		q.Partition = &ids[0]
	}
	q.Since, q.Until, err = span(c.Since, c.Until, now)
	return q, err
}

// writeHistory prints the epoch where one partition is asked for, else the changed partitions.
func writeHistory(s *session, changes []lease.Change, only *partition.ID) {
	header := table.Row{"when (UTC)", "what", "from", "to", "partitions", "lease ended"}
	if only != nil {
		header[4] = "epoch"
	}
	var rows []table.Row
	for _, c := range changes {
		row := table.Row{c.At.UTC().Format(time.DateTime), c.Kind, ownerShown(c.From), ownerShown(c.To), ranges(c.Partitions), ""}
		for i, id := range c.Partitions {
			if only != nil && id == *only {
				row[4] = c.Epochs[i]
			}
		}
		if c.RanOut != nil {
			row[5] = c.RanOut.UTC().Format(time.DateTime)
		}
		rows = append(rows, row)
	}
	writeTable(s.stdout, header, rows)
}

// ownerShown returns the end of a worker's id, by which commands find it, and its host.
func ownerShown(h lease.Owner) string {
	if h.Nobody() {
		return "–"
	}
	const digits = 6
	id := h.ID.String()
	return strings.TrimSpace(id[len(id)-digits:] + " " + h.Hostname)
}
