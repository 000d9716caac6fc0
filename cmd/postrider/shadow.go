package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// validateShadow refuses settings without use in a shadow.
func (c *runCmd) validateShadow() error {
	switch {
	case (c.Canary != 0 || c.Audit != 0) && (c.Shadow || c.Once):
		return fmt.Errorf("%w: --canary and --audit are for workers that run on; leave them out with --shadow and --once", errRefused)
	case !c.Shadow:
		return nil
	case c.NoLeasing:
		return fmt.Errorf("%w: --shadow and --no-leasing exclude each other: a shadow takes no leases", errRefused)
	case c.CreateStream:
		return fmt.Errorf("%w: --shadow and --create-stream exclude each other: a shadow changes nothing", errRefused)
	}
	return nil
}

// shadowTick counts a shadow's would-be deliveries of one second, as one JSON line.
type shadowTick struct {
	At           time.Time `json:"at"`
	Shadow       bool      `json:"shadow"`
	Claimed      int64     `json:"claimed"`
	WouldPublish int64     `json:"would_publish"`
	WouldSkip    int64     `json:"would_skip"`
	Failed       int64     `json:"would_fail"`
	Dead         int64     `json:"would_die"`
	Lag          int64     `json:"watermark_lag"`
	PerSecond    float64   `json:"would_publish_per_second"`
	Duration     float64   `json:"duration_seconds"`
	Partitions   int       `json:"partitions"`
	LastError    string    `json:"last_error,omitempty"`
}

type shadow struct {
	rehearser  *loop.Rehearser
	partitions partition.Count
	monitor    *ui.Server // nil: none
	close      []func()
}

func (w *shadow) end() {
	for i := len(w.close) - 1; i >= 0; i-- {
		w.close[i]()
	}
}

// runShadow rehearses until the context ends, or once.
func (c *runCmd) runShadow(s *session, log *slog.Logger) error {
	w, err := c.newShadow(s.ctx, log)
	if w != nil {
		defer w.end()
	}
	if err != nil {
		return err
	}
	log.Info("a shadow claims and publishes nothing", "partitions", w.partitions)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ended := make(chan error, 2)
	running := 1
	if w.monitor != nil {
		running++
		log.Info("monitor", "url", w.monitor.URL())
		go func() { ended <- w.monitor.Run(ctx) }()
	}
	go func() { ended <- w.rehearser.Run(ctx, c.Once) }()
	watched := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		if c.JSON {
			w.watch(watching, s.stdout)
		}
	}()
	err = <-ended
	cancel()
	for range running - 1 {
		err = errors.Join(err, <-ended)
	}
	stop()
	<-watched
	if !c.JSON && !c.Silent {
		done := w.rehearser.Stats()
		fmt.Fprintf(s.stdout, "would have published %d, skipped %d, failed %d\n", done.Published, done.Skipped, done.Failed)
	}
	return err
}

// newShadow wires a shadow. Its end closes all that was opened, also after an error.
func (c *runCmd) newShadow(ctx context.Context, log *slog.Logger) (*shadow, error) {
	w := &shadow{}
	database := c.databaseFlags
	database.readOnly = true
	pool, err := database.pool(ctx, "postrider shadow", 4)
	if err != nil {
		return w, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w.close = append(w.close, pool.Close, cancel)
	info, err := checkSchema(ctx, pool, schema.Config{Schema: c.Schema, Partitions: c.Partitions, Stream: c.Stream, Subject: c.Subject})
	if err != nil {
		return w, err
	}
	c.complete(info)
	nc, apiPrefix, err := c.connect("postrider shadow", log)
	if err != nil {
		return w, err
	}
	w.close = append(w.close, nc.Close)
	registry := newRegistry()
	if err := c.shadowRelay(ctx, w, pool, nc, apiPrefix, info, registry, log); err != nil {
		return w, err
	}
	if c.HTTPAddr == "" || c.HTTPAddr == "off" { // the default port belongs to the live worker
		return w, nil
	}
	source, err := sourceOf(ctx, pool, c.Schema, info, ui.SourceConfig{Strategy: partition.Strategy(c.Assignment), HeartbeatTTL: c.LeaseTTL})
	if err != nil {
		return w, err
	}
	w.monitor, err = c.newMonitor(ctx, source, nil, nil, registry, pool.Ping, log)
	return w, err
}

func (c *runCmd) shadowRelay(ctx context.Context, w *shadow, pool *pgxpool.Pool, nc *nats.Conn, apiPrefix string, info outboxInfo, registry prometheus.Registerer, log *slog.Logger) error {
	store, err := pgstore.New(ctx, pool, c.Schema, info.events)
	if err != nil {
		return err
	}
	if err := pgstore.RequireOrder(ctx, pool, c.Schema, info.events, delivery.Ordering(c.Ordering)); err != nil {
		return refusedFor(pgstore.ErrStrict, err)
	}
	shape, err := c.shape(c.Subject)
	if err != nil {
		return err
	}
	stream, err := streams.EnsureFenced(ctx, nc, streams.StreamConfig{Name: c.Stream, APIPrefix: apiPrefix, Subject: shape.Subject, Control: info.control(), Logger: log})
	if err != nil {
		return err
	}
	publisher, err := natspub.NewRehearsal(nc, natspub.RehearsalConfig{Stream: c.Stream, Shape: shape, MaxMessageSize: streams.LargestMessage(stream.Config)}, log)
	if err != nil {
		return err
	}
	bell, err := wire.NewBell(nc, outbox.BellSubject(c.Schema))
	if err != nil {
		return err
	}
	w.close = append(w.close, func() { _ = bell.Close() })
	relay, err := c.relay()
	if err != nil {
		return err
	}
	relay.MaxPayload = info.largestPayload()
	relay.Logger, relay.Registerer = log, prometheus.WrapRegistererWithPrefix("shadow_", registry)
	w.partitions = info.Partitions
	w.rehearser, err = loop.NewRehearser(relay, store, publisher, bell, info.Partitions)
	return err
}

func (w *shadow) watch(ctx context.Context, out io.Writer) {
	before := w.rehearser.Stats()
	eachSecond(ctx, func(now time.Time, took time.Duration) {
		stats := w.rehearser.Stats()
		published := stats.Published - before.Published
		_ = writeJSON(out, shadowTick{
			At: now.UTC(), Shadow: true, Claimed: stats.Claimed - before.Claimed, WouldPublish: published,
			WouldSkip: stats.Skipped - before.Skipped, Failed: stats.Failed - before.Failed, Dead: stats.Dead - before.Dead,
			Lag: stats.Watermark.Lag(), Duration: inSeconds(took), Partitions: int(w.partitions),
			PerSecond: perSecond(published, took), LastError: newestError(stats, now, took),
		})
		before = stats
	})
}
