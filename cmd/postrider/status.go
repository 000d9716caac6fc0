package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// lookFlags are the flags of the commands that only look.
type lookFlags struct {
	databaseFlags
	Assignment     string `help:"How the workers share partitions: ${enum}." enum:"modulo,sticky" default:"modulo"`
	EventsRelation string `help:"Table or view that holds the events, as name or schema.name." default:"events"`
	JSON           bool   `help:"Print JSON." name:"json"`
}

// look reads the cluster's state once.
func (f lookFlags) look(ctx context.Context) (ui.Snapshot, schema.Info, error) {
	if err := f.validate(); err != nil {
		return ui.Snapshot{}, schema.Info{}, err
	}
	events, err := delivery.ParseRelation(f.EventsRelation)
	if err != nil {
		return ui.Snapshot{}, schema.Info{}, fmt.Errorf("%w: --events-relation: %w", errRefused, err)
	}
	pool, err := f.pool(ctx, "postrider status", 2)
	if err != nil {
		return ui.Snapshot{}, schema.Info{}, err
	}
	defer pool.Close()
	info, err := checkSchema(ctx, pool, f.Schema, 0)
	if err != nil {
		return ui.Snapshot{}, info, err
	}
	source, err := readSource(ctx, pool, f.Schema, events, partition.Strategy(f.Assignment))
	if err != nil {
		return ui.Snapshot{}, info, err
	}
	snapshot, err := source.Snapshot(ctx)
	return snapshot, info, err
}

func readSource(ctx context.Context, pool *pgxpool.Pool, name string, events delivery.Relation,
	strategy partition.Strategy,
) (ui.Source, error) {
	workers, err := heartbeat.NewStore(pool, name)
	if err != nil {
		return nil, err
	}
	leases, err := lease.NewStore(pool, name)
	if err != nil {
		return nil, err
	}
	deliveries, err := delivery.NewStore(ctx, pool, name, events)
	if err != nil {
		return nil, err
	}
	return ui.NewSource(ui.SourceConfig{Workers: workers, Leases: leases, Deliveries: deliveries, Strategy: strategy})
}

type statusCmd struct{ lookFlags }

// statusBody is the JSON form of a status.
type statusBody struct {
	At                 time.Time    `json:"at"`
	Schema             string       `json:"schema"`
	Version            int64        `json:"schema_version"`
	Pending            int64        `json:"pending"`
	Failed             int64        `json:"failed"`
	Blocked            int64        `json:"blocked"`
	Dead               int64        `json:"dead"`
	Scheduled          int64        `json:"scheduled"`
	OldestPending      float64      `json:"oldest_pending_seconds"`
	PublishedLastHour  int64        `json:"published_last_hour"`
	PublishedPerSecond float64      `json:"published_per_second"`
	Workers            int          `json:"workers"`
	Draining           int          `json:"workers_draining"`
	Stale              int          `json:"workers_stale"`
	Partitions         int          `json:"partitions"`
	Owned              int          `json:"partitions_owned"`
	Paused             int          `json:"partitions_paused"`
	Watermark          ui.Watermark `json:"watermark"`
	// WatermarkError says why nothing is known of the watermark.
	WatermarkError string `json:"watermark_error,omitempty"`
}

func newStatusBody(snapshot ui.Snapshot, name string, version int64) statusBody {
	sum := snapshot.Summary()
	body := statusBody{
		At: snapshot.At, Schema: name, Version: version,
		Pending: sum.Pending, Failed: sum.Failed, Blocked: sum.Blocked, Dead: sum.Dead, Scheduled: sum.Scheduled,
		OldestPending: sum.OldestPending.Seconds(), PublishedLastHour: sum.PublishedLastHour,
		PublishedPerSecond: sum.PublishedPerSecond, Workers: sum.ActiveWorkers, Draining: sum.DrainingWorkers,
		Stale: sum.StaleWorkers, Partitions: len(snapshot.Partitions), Owned: sum.OwnedPartitions, Paused: sum.PausedPartitions,
		Watermark: snapshot.Watermark,
	}
	if err := snapshot.Watermark.Err; err != nil {
		body.WatermarkError = redact(err.Error())
	}
	return body
}

// Run prints the summary.
func (c *statusCmd) Run(s *session) error {
	snapshot, info, err := c.look(s.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.stdout, newStatusBody(snapshot, c.Schema, info.Version))
	}
	sum := snapshot.Summary()
	writeTable(s.stdout, table.Row{"outbox", c.Schema}, []table.Row{
		{"pending", humanize.Comma(sum.Pending)},
		{"oldest pending", sum.OldestPending.Round(time.Millisecond)},
		{"failed, will retry", humanize.Comma(sum.Failed)},
		{"blocked", humanize.Comma(sum.Blocked)},
		{"dead", humanize.Comma(sum.Dead)},
		{"scheduled", humanize.Comma(sum.Scheduled)},
		{"published, last hour", humanize.Comma(sum.PublishedLastHour)},
		{"published/s", fmt.Sprintf("%.1f", sum.PublishedPerSecond)},
		{"workers", fmt.Sprintf("%d active, %d draining, %d stale", sum.ActiveWorkers, sum.DrainingWorkers, sum.StaleWorkers)},
		{"partitions", fmt.Sprintf("%d of %d owned, %d paused", sum.OwnedPartitions, len(snapshot.Partitions), sum.PausedPartitions)},
		{"watermark", snapshot.Watermark},
	})
	if snapshot.Stalled() {
		what := "a transaction"
		if n := len(snapshot.Watermark.Holders); n > 1 {
			what = fmt.Sprintf("%d transactions", n)
		}
		fmt.Fprintf(s.stdout, "order waits for %s: %s\n", what, snapshot.Watermark.HolderNames())
		fmt.Fprintf(s.stdout, "end it in the program that began it; where nobody does, this takes back what it wrote: %s\n",
			strings.Join(snapshot.Watermark.Rollbacks(), "; "))
	}
	if sum.UnownedPartitions > 0 && sum.ActiveWorkers == 0 {
		fmt.Fprintln(s.stdout, "no worker is running: start one with `postrider run`")
	}
	return nil
}
