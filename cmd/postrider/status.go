package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

type lookFlags struct {
	databaseFlags
	Assignment string `help:"How the workers share partitions: ${enum}." enum:"modulo,sticky" default:"modulo"`
	JSON       bool   `help:"Print JSON." name:"json"`
}

// look reads the cluster's state once.
func (f lookFlags) look(ctx context.Context) (ui.Snapshot, outboxInfo, error) {
	pool, info, err := f.outbox(ctx, "postrider status", 2)
	if err != nil {
		return ui.Snapshot{}, info, err
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source, err := sourceOf(ctx, pool, f.Schema, info, ui.SourceConfig{Strategy: partition.Strategy(f.Assignment)})
	if err != nil {
		return ui.Snapshot{}, info, err
	}
	snapshot, err := source.Snapshot(ctx)
	return snapshot, info, err
}

// sourceOf reads the cluster through one pool, until the context ends; config lacks the stores alone.
func sourceOf(ctx context.Context, pool *pgxpool.Pool, name string, info outboxInfo, config ui.SourceConfig) (_ ui.Source, err error) {
	if config.Workers, err = heartbeat.NewStore(pool, name); err != nil {
		return nil, err
	}
	if config.Leases, err = lease.NewStore(ctx, pool, name); err != nil {
		return nil, err
	}
	if config.Deliveries, err = pgstore.New(ctx, pool, name, info.events); err != nil {
		return nil, err
	}
	config.Closing = ctx.Done()
	return ui.NewSource(config)
}

type statusCmd struct{ lookFlags }

// statusBody is the JSON form of a status: the totals as the API has them, and their origin.
type statusBody struct {
	At      time.Time `json:"at"`
	Schema  string    `json:"schema"`
	Version int64     `json:"schema_version"`
	ui.SummaryBody
	// WatermarkError says why the watermark is unknown.
	WatermarkError string `json:"watermark_error,omitempty"`
	// Canaries holds the faults that canaries found.
	Canaries []string `json:"canaries,omitempty"`
	// WriteFaults says why writes fail or have no events.
	WriteFaults []string `json:"write_faults,omitempty"`
}

func newStatusBody(snapshot ui.Snapshot, name string, version int64) statusBody {
	body := statusBody{At: snapshot.At.UTC(), Schema: name, Version: version, SummaryBody: snapshot.SummaryBody(), Canaries: snapshot.Canaries()}
	if err := snapshot.Watermark.Err; err != nil {
		body.WatermarkError = redact(err.Error())
	}
	for _, f := range snapshot.WriteFaults {
		body.WriteFaults = append(body.WriteFaults, redact(f.String()))
	}
	return body
}

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
	writeWhy(s.stdout, snapshot)
	switch {
	case sum.UnownedPartitions == 0 || sum.ActiveWorkers > 0:
	case sum.DrainingWorkers > 0:
		fmt.Fprintln(s.stdout, "all workers that run are draining: take that back with `postrider workers undrain`, or start another with `postrider run`")
	default:
		fmt.Fprintln(s.stdout, "no worker holds leases: start one with `postrider run`, if none runs --no-leasing")
	}
	return nil
}

// statusWidth bounds the lines of a status.
const statusWidth = 80

// writeWhy prints why workers do not deliver and why events wait: each cause once, with its partitions, and with its cure where that
// is known.
func writeWhy(out io.Writer, snapshot ui.Snapshot) {
	for _, c := range snapshot.Conditions() {
		by := ""
		if n := len(c.Workers); n > 0 {
			by = " on " + english.Plural(n, "worker", "")
		}
		writeWrapped(out, fmt.Sprintf("delivery pauses: %s since %s UTC%s: %s; to mend it: %s",
			c.Reason, c.Since.Format(time.DateTime), by, redact(c.Detail), c.Cure))
	}
	for _, w := range snapshot.Waits() {
		events := english.Plural(int(w.Events), "event", "")
		switch w.Reason {
		case "dead", "failed", "blocked":
			writeWrapped(out, fmt.Sprintf("%s: %s", w.Where(), w.Text))
		default:
			writeWrapped(out, fmt.Sprintf("%s: %s (%s)", w.Where(), redact(w.Text), events))
		}
	}
	for _, f := range snapshot.WriteFaults {
		writeWrapped(out, "writes: "+printable(redact(f.Detail+"; to mend it: "+f.Cure)))
	}
	for _, text := range snapshot.Canaries() {
		writeWrapped(out, "canary "+printable(redact(text)))
	}
	if snapshot.Stalled() {
		what := "a transaction"
		if n := len(snapshot.Watermark.Holders); n > 1 {
			what = fmt.Sprintf("%d transactions", n)
		}
		fmt.Fprintf(out, "order waits for %s: %s\n", what, printable(snapshot.Watermark.HolderNames()))
		fmt.Fprintf(out, "end it in the program that began it; where nobody does, this takes back what it wrote: %s\n",
			strings.Join(snapshot.Watermark.Rollbacks(), "; "))
	}
}

// writeWrapped breaks a text at spaces and indents all lines but the first.
func writeWrapped(out io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > statusWidth:
			fmt.Fprintln(out, line)
			line = "  " + word
		default:
			line += " " + word
		}
	}
	fmt.Fprintln(out, line)
}
