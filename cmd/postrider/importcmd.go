package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/importer"
)

type importCmd struct {
	databaseFlags
	Files     []string `arg:"" name:"file" help:"Files of JSON lines, plain or gzip; '-' for standard input."`
	Topic     string   `help:"Topic of events that name none." default:"default"`
	AuditOnly bool     `help:"Store the events and publish none of them." env:"-"`
	Rate      float64  `help:"Most events a second; 0: as many as go." default:"0" env:"-"`
	Ring      string   `help:"NATS URL on which the workers are woken after commits; without it they find the events by polling." placeholder:"URL"`
	JSON      bool     `help:"Print one JSON object at the end, and no progress." name:"json"`
}

func (c *importCmd) Help() string {
	return `Each line is {"tx":1,"stream":"order-7","version":1,"type":"order.placed","occurred_at":"2026-01-02T03:04:05Z","payload":{…}}.
Neighbouring lines with the same tx are one transaction. Events that are there already (by stream and version)
are left out, so that an import can be repeated. Files of "events prune" have more, which is kept, but for keys
of metadata that the program does not know.

Example:
  postrider import --database-url postgres://app@db/app events.jsonl.gz`
}

type importBody struct {
	Events          int     `json:"events"`
	Skipped         int     `json:"skipped"`
	Transactions    int     `json:"transactions"`
	Lines           int     `json:"lines"`
	Seconds         float64 `json:"seconds"`
	EventsPerSecond float64 `json:"events_per_second"`
}

func (c *importCmd) Run(s *session) error {
	pool, _, err := c.outbox(s.ctx, "postrider import", 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	ring := func() {}
	if c.Ring != "" {
		nc, err := wire.Connect(c.Ring, "postrider import", s.logger())
		if err != nil {
			return err
		}
		defer nc.Close()
		ring = ringer(nc, c.Schema)
	}
	progress := newProgressLine(s.stderr, c.JSON)
	im, err := newImporter(pool, c.Schema, importer.Config{
		Topic: c.Topic, AuditOnly: c.AuditOnly, Rate: c.Rate, Progress: progress.show,
		OnCommitted: func(importer.Transaction) { ring() },
	})
	if err != nil {
		return err
	}
	var total importBody
	for _, name := range c.Files {
		result, err := importFile(s.ctx, im, name)
		progress.clear() // the total follows
		total.Events += result.Events
		total.Skipped += result.Skipped
		total.Transactions += result.Transactions
		total.Lines += result.Lines
		total.Seconds += result.Elapsed.Seconds()
		if err != nil {
			if len(c.Files) > 1 {
				err = fmt.Errorf("%w; %d events of all files", err, total.Events)
			}
			return fmt.Errorf("import: %w", err)
		}
	}
	if total.Seconds > 0 {
		total.EventsPerSecond = float64(total.Events) / total.Seconds
	}
	return answer(s.stdout, c.JSON, total, fmt.Sprintf("imported %s events in %s transactions, %s were there already, %.1f s, %.0f events/s",
		humanize.Comma(int64(total.Events)), humanize.Comma(int64(total.Transactions)), humanize.Comma(int64(total.Skipped)),
		total.Seconds, total.EventsPerSecond))
}

// ringer returns a function that rings the workers' doorbell without waiting.
func ringer(nc *nats.Conn, schema string) func() {
	subject := outbox.BellSubject(schema)
	return func() { _ = nc.Publish(subject, nil) }
}

func newImporter(pool *pgxpool.Pool, schema string, cfg importer.Config) (*importer.Importer, error) {
	producer, err := outbox.New(outbox.Config{Schema: schema})
	if err != nil {
		return nil, err
	}
	cfg.Pool, cfg.Producer, cfg.Schema = pool, producer, schema
	im, err := importer.New(cfg)
	if errors.Is(err, importer.ErrConfig) {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return im, err
}

func importFile(ctx context.Context, im *importer.Importer, name string) (importer.Progress, error) {
	var from io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return importer.Progress{}, err
		}
		defer f.Close() //nolint:errcheck // only read
		from = f
	}
	return im.Run(ctx, from, name)
}

// progressLine shows an import's progress, on one line of a terminal, or on a line every few seconds elsewhere.
type progressLine struct {
	statusLine
	off   bool
	shown time.Time
}

func newProgressLine(out io.Writer, off bool) *progressLine {
	return &progressLine{statusLine: newStatusLine(out), off: off, shown: time.Now()}
}

func (p *progressLine) show(at importer.Progress) {
	every := 5 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	if p.off || time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	share := ""
	if at.BytesTotal > 0 {
		share = fmt.Sprintf(" %3.0f %%", 100*float64(at.BytesRead)/float64(at.BytesTotal))
	}
	p.write(fmt.Sprintf("%s:%s %s events, %s there already, %.0f/s", at.Name, share,
		humanize.Comma(int64(at.Events)), humanize.Comma(int64(at.Skipped)), at.EventsPerSecond))
}
