package projection_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/projection"
)

// What does nothing, or the wrong thing, is refused by name.
func TestCombinationsAreRefusedByName(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for name, c := range map[string]struct {
		mode   projection.Mode
		change func(*projection.Config)
		names  string
	}{
		"no mode":                 {"", func(*projection.Config) {}, "Mode must be"},
		"unknown mode":            {"inbox", func(*projection.Config) {}, "Mode must be"},
		"outbox without a worker": {projection.Outbox, func(c *projection.Config) { c.Workers = 0 }, "Workers"},
		"shadow without a worker": {projection.Shadow, func(c *projection.Config) { c.Workers = 0 }, "Workers"},
		"inline with workers":     {projection.Inline, func(c *projection.Config) { c.Workers = 1 }, "Workers"},
		"shadow of itself":        {projection.Shadow, func(c *projection.Config) { c.ShadowSchema = "projection" }, "ShadowSchema"},
		"among the events":        {projection.Outbox, func(c *projection.Config) { c.Schema = "public" }, "Schema"},
		"among the events of itself": {
			projection.Outbox, func(c *projection.Config) { c.Schema, c.Journal = "public", c.Pool }, "Schema must differ from JournalSchema",
		},
		"inline that listens": {
			projection.Inline, func(c *projection.Config) { c.JetStream = struct{ jetstream.JetStream }{} }, "JetStream",
		},
		"schema with a quote": {projection.Outbox, func(c *projection.Config) { c.Schema = `a"b` }, "Schema"},
		"no pool":             {projection.Outbox, func(c *projection.Config) { c.Pool = nil }, "Pool"},
		"no projector":        {projection.Outbox, func(c *projection.Config) { c.Projector = nil }, "Projector"},
		"no attempts":         {projection.Outbox, func(c *projection.Config) { c.MaxAttempts = -1 }, "MaxAttempts"},
		"short lease":         {projection.Outbox, func(c *projection.Config) { c.LeaseTTL = 1 }, "LeaseTTL"},
		"backoff":             {projection.Outbox, func(c *projection.Config) { c.BackoffMax = time.Microsecond }, "BackoffMax"},
		"batch":               {projection.Outbox, func(c *projection.Config) { c.BatchEvents = -1 }, "BatchEvents"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := b.config(c.mode)
			config.Workers = max(config.Workers, 0)
			c.change(&config)
			if _, err := projection.New(config); !errors.Is(err, projection.ErrConfig) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("got %v, want a refusal that names %s", err, c.names)
			}
		})
	}
}

// Inline: event and effect are one transaction, also with what others left behind, and nothing of it when it fails.
func TestInlineAppliesInTheProducersTransaction(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "paid", 2)...)
	p := b.make(t, projection.Inline)
	if repaired, err := p.CatchUp(t.Context(), nil); err != nil || len(repaired.Repaired) != 1 {
		t.Fatalf("caught up with %+v, %v", repaired, err)
	}
	b.append(t, events("a", "paid", 1)...) // by somebody who does not know of the projection
	inline := func(kind string) error {
		return pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			if _, err := b.producer.AppendTx(t.Context(), tx, events("a", kind, 2)...); err != nil {
				return err
			}
			if err := p.ApplyTx(t.Context(), tx, "a", "a"); err != nil {
				return err
			}
			var path, zone string
			err := tx.QueryRow(t.Context(), `SELECT current_setting('search_path'),
				current_setting('idle_in_transaction_session_timeout')`).Scan(&path, &zone)
			if path != `"$user", public` || zone != "0" {
				t.Errorf("the transaction is left with search_path %s, timeout %s", path, zone)
			}
			return err
		})
	}
	if err := inline("paid"); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `SELECT events FROM projection.sums`); n != 5 {
		t.Errorf("%d events applied, want 5", n)
	}
	if err := inline("poison"); !errors.Is(err, errPoison) {
		t.Errorf("a poisonous event: %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM events`); n != 5 {
		t.Errorf("%d events, want 5: the last two were rolled back", n)
	}
	clean(t, p)
	if err := p.Run(t.Context()); !errors.Is(err, projection.ErrMode) {
		t.Errorf("run in mode inline: %v", err)
	}
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error { return b.make(t, projection.Outbox).ApplyTx(t.Context(), tx, "a") })
	if !errors.Is(err, projection.ErrMode) {
		t.Errorf("ApplyTx in mode outbox: %v", err)
	}
}

// An owner that was suspended beyond its lease, in the middle of a batch or before it, changes nothing: the watermark does
// not go back and nothing is applied twice.
func TestAStaleOwnerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "paid", 3)...)
	began, resume := make(chan struct{}), make(chan struct{})
	first := true
	b.sums.hook = func(context.Context, pgx.Tx, projection.Event) error {
		if first {
			first = false
			close(began)
			<-resume // deaf to the context, as a frozen process is
		}
		return nil
	}
	brief := func(c *projection.Config) { c.LeaseTTL, c.Workers = 200*time.Millisecond, 1 }
	stop := b.start(t, b.make(t, projection.Outbox, brief))
	<-began
	p := b.make(t, projection.Outbox)
	b.start(t, p)
	b.until(t, 3, `SELECT count(*) FROM projection.entries`)
	b.append(t, events("a", "paid", 3)...)
	b.until(t, 6, `SELECT count(*) FROM projection.entries`)
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	close(resume)
	<-ended
	b.append(t, events("a", "paid", 3)...)
	b.until(t, 9, `SELECT count(*) FROM projection.entries`)
	clean(t, p)
	if s := summary(t, p); s.Current != 1 {
		t.Errorf("summary %+v", s)
	}
}
