package projection_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/projection"
)

// When a part of the events was dropped that is applied long ago, nothing is missed, and streams go on: those that had ended in it, and
// those of which it held the last one that was applied.
func TestAProjectionOutlastsADroppedPart(t *testing.T) {
	t.Parallel()
	b, p := filled(t)
	b.dropPart(t, func() {
		b.append(t, events("new", "paid", 1)...)
		b.append(t, events("b", "paid", 1)...) // the first of it that was not applied
	})
	report, err := p.Detect(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range report.Gaps { // what comes behind is on its way
		if g.Kind != projection.Trailing && g.Kind != projection.MissingWatermark || g.Stream != "b" && g.Stream != "new" {
			t.Errorf("it looks as if the database had forgotten: %+v", g)
		}
	}
	// What was changed, or added to the tables, cannot be built anew: it stays.
	b.exec(t, `UPDATE projection.sums SET total = 0 WHERE account = 'c'`)
	b.exec(t, `DELETE FROM projection.projection_streams WHERE stream_id = 'Ä'`)
	p = b.make(t, projection.Outbox)
	b.start(t, p)
	b.until(t, 26, `SELECT count(*) FROM projection.entries`)
	b.until(t, 6, `SELECT count(*) FROM projection.entries WHERE account = 'c'`)
	b.until(t, 6, `SELECT count(*) FROM projection.entries WHERE account = 'Ä'`)
	b.append(t, events("a", "paid", 1)...) // goes on at version 7
	b.until(t, 27, `SELECT count(*) FROM projection.entries`)
	b.until(t, 0, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL`)
}

// dropPart begins a part of the events, which is filled, and drops the one before.
func (b *bundle) dropPart(t *testing.T, fill func()) {
	t.Helper()
	store, err := parts.New(parts.Config{Pool: b.pool, Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	who := parts.Who{Actor: "test", Reason: "a test"}
	if b.count(t, `SELECT count(*) FROM outbox_settings WHERE events_in_parts`) == 0 {
		if _, err := store.Split(t.Context(), who); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.Begin(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	fill()
	b.exec(t, `DELETE FROM outbox`)
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Drop(t.Context(), list[0], parts.Archived{}, who); err != nil {
		t.Fatal(err)
	}
}

// A projection that begins when events were dropped already is refused, or begins with what was kept.
func TestAProjectionBeginsBehindADroppedPart(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("goes on", "paid", 3)...)
	b.append(t, events("ended", "paid", 3)...)
	b.dropPart(t, func() {
		b.append(t, events("goes on", "paid", 2)...)
		b.append(t, events("new", "paid", 1)...)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.make(t, projection.Outbox).Run(ctx); !errors.Is(err, projection.ErrDropped) {
		t.Fatalf("a start without a beginning gives %v", err)
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.FromKept = true })
	stop := b.start(t, p)
	b.until(t, 3, `SELECT count(*) FROM projection.entries`)
	if _, err := p.Announce(ctx, map[string]int64{"ended": 3}); err != nil { // a message from before
		t.Fatal(err)
	}
	b.until(t, 3, `SELECT count(*) FROM projection.projection_streams WHERE due_at IS NULL AND dead_at IS NULL`)
	stop()
	report, err := p.Detect(t.Context(), 0)
	if err != nil || len(report.Gaps) != 0 {
		t.Errorf("gaps %+v, %v", report, err)
	}
	b.dropPart(t, func() { b.append(t, events("goes on", "paid", 1)...) }) // all that was applied
	b.start(t, p)
	b.until(t, 4, `SELECT count(*) FROM projection.entries`)
}
