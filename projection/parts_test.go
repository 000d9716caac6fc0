package projection_test

import (
	"testing"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/projection"
)

// When a part of the events was dropped that is applied long ago, nothing is missed, and streams go on: those that had ended in it, and
// those of which it held the last one that was applied.
func TestAProjectionOutlastsADroppedPart(t *testing.T) {
	t.Parallel()
	b, p := filled(t)
	store, err := parts.New(parts.Config{Pool: b.pool, Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	who := parts.Who{Actor: "test", Reason: "a test"}
	if _, err := store.Split(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Begin(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	b.append(t, events("new", "paid", 1)...)
	b.append(t, events("b", "paid", 1)...) // the first of it that was not applied
	b.exec(t, `DELETE FROM outbox`)
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Drop(t.Context(), list[0], parts.Archived{}, who); err != nil {
		t.Fatal(err)
	}
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
