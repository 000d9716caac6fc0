package projection_test

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/projection"
)

// filled is a projection of four streams with two workers' work done and nobody at work any more.
func filled(t *testing.T) (*bundle, *projection.Projection) {
	t.Helper()
	b := newBundle(t)
	for _, stream := range []string{"a", "b", "c", "Ä"} {
		b.append(t, events(stream, "paid", 6)...)
	}
	p := b.make(t, projection.Outbox)
	stop := b.start(t, p)
	b.until(t, 24, `SELECT count(*) FROM projection.entries`)
	stop()
	return b, p
}

// Everything that can be damaged behind the projection's back is found by name and mended.
func TestGapsAreFoundAndRepaired(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, damage string
		kind         projection.GapKind
		rewrite      bool
	}{
		{"row deleted", `DELETE FROM projection.entries WHERE account = 'b' AND version = 3`, projection.Rows, false},
		{"row changed", `UPDATE projection.sums SET total = 0 WHERE account = 'b'`, projection.Rows, false},
		{"row added", `INSERT INTO projection.entries VALUES ('b', 77)`, projection.Rows, false},
		{"all rows deleted", `DELETE FROM projection.entries WHERE account = 'b'`, projection.Rows, false},
		{"watermark deleted", `DELETE FROM projection.projection_streams WHERE stream_id = 'b'`, projection.MissingWatermark, false},
		{"row of no stream", `INSERT INTO projection.entries VALUES ('nobody', 1)`, projection.MissingWatermark, false},
		{"hole noted", `UPDATE projection.projection_streams SET expected_version = 3 WHERE stream_id = 'b'`, projection.MidStream, false},
		{"versions skipped", `UPDATE projection.projection_streams SET expected_version = 9 WHERE stream_id = 'b'`, projection.MidStream, false},
		{"told of what was forgotten", `UPDATE projection.projection_streams SET wanted_version = 7 WHERE stream_id = 'b'`, projection.Ahead, true},
		{"journal forgot", `DELETE FROM events WHERE stream_id = 'b' AND stream_version > 4`, projection.Ahead, true},
		{
			"journal differs", `
			UPDATE events SET event_id = gen_random_uuid(), payload = '9' WHERE stream_id = 'b' AND stream_version = 6`,
			projection.Diverged, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, p := filled(t)
			b.exec(t, c.damage)
			stream := "b"
			if c.name == "row of no stream" {
				stream = "nobody"
			}
			report, err := p.Detect(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Gaps) != 1 || report.Gaps[0].Kind != c.kind || report.Gaps[0].Stream != stream {
				t.Fatalf("found %+v, want %s of %s", report, c.kind, stream)
			}
			if c.rewrite {
				kept, err := p.Repair(t.Context(), report.Gaps, false, nil)
				if err != nil || len(kept.Repaired) != 0 || len(kept.Left) != 1 {
					t.Fatalf("a repair without rewrite: %+v, %v", kept, err)
				}
			}
			repaired, err := p.Repair(t.Context(), report.Gaps, c.rewrite, nil)
			if err != nil || len(repaired.Repaired) != 1 || len(repaired.Left) != 0 {
				t.Fatalf("repaired %+v, %v", repaired, err)
			}
			clean(t, p)
		})
	}
}

// Events that nobody announced are missed once they are old enough, and not while they may still be on their way.
func TestTrailingEventsAreFound(t *testing.T) {
	t.Parallel()
	b, p := filled(t)
	b.append(t, events("c", "paid", 2)...)
	b.append(t, events("new", "paid", 2)...)
	report, err := p.Detect(t.Context(), time.Hour)
	if err != nil || len(report.Gaps) != 0 {
		t.Fatalf("young events: %+v, %v", report, err)
	}
	if report, err = p.Detect(t.Context(), 0); err != nil || len(report.Gaps) != 2 {
		t.Fatalf("found %+v, %v", report, err)
	}
	kinds := []projection.GapKind{report.Gaps[0].Kind, report.Gaps[1].Kind}
	if !slices.Equal(kinds, []projection.GapKind{projection.Trailing, projection.MissingWatermark}) {
		t.Errorf("kinds %v", kinds)
	}
	if repaired, err := p.Repair(t.Context(), report.Gaps, false, nil); err != nil || len(repaired.Left) != 0 {
		t.Errorf("repaired %+v, %v", repaired, err)
	}
	clean(t, p)
}

// A start repairs by itself, while NoRepair only says what is wrong.
func TestAStartRepairs(t *testing.T) {
	t.Parallel()
	b, _ := filled(t)
	b.exec(t, `DELETE FROM projection.entries WHERE account = 'b' AND version = 3`)
	b.exec(t, `DELETE FROM projection.projection_streams WHERE stream_id = 'a'`)
	b.append(t, events("c", "paid", 1)...)
	b.start(t, b.make(t, projection.Outbox, func(c *projection.Config) { c.NoRepair = true }))
	b.until(t, 24, `SELECT count(*) FROM projection.entries`) // one lost, one new
	p := b.make(t, projection.Outbox)
	b.start(t, p)
	b.until(t, 25, `SELECT count(*) FROM projection.entries`)
	clean(t, p)
}

// A dead head is no obstacle to the repair of what was applied before it, and stays dead.
func TestARepairKeepsADeadHead(t *testing.T) {
	t.Parallel()
	b, p := filled(t)
	b.append(t, events("b", "never", 1)...)
	stop := b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL`)
	stop()
	b.exec(t, `DELETE FROM projection.entries WHERE account = 'b'`)
	report, err := p.Detect(t.Context(), 0)
	if err != nil || len(report.Gaps) != 1 {
		t.Fatalf("found %+v, %v", report, err)
	}
	if repaired, err := p.Repair(t.Context(), report.Gaps, false, nil); err != nil || len(repaired.Left) != 0 {
		t.Fatalf("repaired %+v, %v", repaired, err)
	}
	clean(t, p)
	if s := summary(t, p); s.Dead != 1 || s.EventsBehindDead != 1 {
		t.Errorf("summary %+v", s)
	}
}

// Integrity also sees what fingerprints cannot: rows that are as they were left, but not as the events say.
func TestIntegrityComparesWithTheEvents(t *testing.T) {
	t.Parallel()
	b, p := filled(t)
	b.exec(t, `UPDATE events SET payload = '50' WHERE stream_id = 'b' AND stream_version = 2`)
	b.exec(t, `INSERT INTO projection.entries VALUES ('nobody', 1)`)
	integrity, err := p.CheckIntegrity(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []projection.Difference{
		{Stream: "b", Table: "sums", Rows: 1, Rebuilt: 1},
		{Stream: "nobody", Table: "entries", Rows: 1, Rebuilt: 0},
	}
	if integrity.Equal || !slices.Equal(integrity.Differences, want) || integrity.Streams != 4 || integrity.Events != 24 {
		t.Errorf("integrity %+v", integrity)
	}
	if n := b.count(t, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%scratch%'`); n != 0 {
		t.Errorf("%d scratch schemas are left", n)
	}
}
