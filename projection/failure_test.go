package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/projection"
)

func expected(text string) *strings.Reader { return strings.NewReader(text) }

func publish(t *testing.T, js jetstream.JetStream, stream, version string) {
	t.Helper()
	msg := nats.NewMsg("events.default.paid")
	msg.Header.Set("Outbox-Stream", stream)
	msg.Header.Set("Outbox-Stream-Version", version)
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) untilTrue(t *testing.T, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	clustertest.Until(t, what, holds, nil)
}

// The eighth failure of a head makes it dead. What comes before it was applied, what comes behind waits, other streams
// flow, people are told, and a requeue lets it go on where it stood.
func TestADeadHeadWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, stream := range []string{"a", "b", "c"} {
		b.append(t, events(stream, "paid", 3)...)
		b.append(t, events(stream, "poison", 1)...)
		b.append(t, events(stream, "paid", 5)...)
	}
	b.append(t, events("fine", "paid", 9)...)
	registry := prometheus.NewRegistry()
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.Registerer = registry })
	b.start(t, p)
	b.until(t, 3, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL`)
	b.until(t, 9+3*3, `SELECT count(*) FROM projection.entries`)
	if n := b.count(t, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL AND attempts = 8
		AND applied_version = 3 AND expected_version = 4`); n != 3 {
		t.Errorf("%d dead streams are as they should be, want 3", n)
	}
	if s := summary(t, p); s.Dead != 3 || s.Current != 1 || s.EventsBehindDead != 18 || s.OldestDead == nil {
		t.Errorf("summary %+v", s)
	}
	b.untilTrue(t, "the alert is there", func(context.Context) (bool, error) {
		return testutil.GatherAndCompare(registry, expected(`
# HELP outbox_projection_dead_heads Streams that stand still behind a dead event, until a person requeues it.
# TYPE outbox_projection_dead_heads gauge
outbox_projection_dead_heads{projection="projection"} 3
`), "outbox_projection_dead_heads") == nil && strings.Contains(b.log.text(), "streams stand still behind a dead event"), nil
	})
	if n := strings.Count(b.log.text(), "the head of a stream is dead"); n != 3 {
		t.Errorf("%d deaths in the log, want 3", n)
	}
	report, err := p.Detect(t.Context(), 0)
	if err != nil || len(report.Gaps) != 0 {
		t.Errorf("gaps %+v, %v: a dead head is none", report.Gaps, err)
	}

	b.sums.heal()
	b.exec(t, `UPDATE projection.projection_streams SET dead_at = '2026-01-01' WHERE stream_id = 'c'`)
	b.exec(t, `UPDATE projection.projection_streams SET dead_at = '2026-01-02' WHERE stream_id <> 'c' AND dead_at IS NOT NULL`)
	done, err := p.RequeueDead(t.Context(), 2)
	if err != nil || len(done) != 2 {
		t.Fatalf("requeued %v, %v", done, err)
	}
	if !slices.Equal(done, []string{"c", "a"}) {
		t.Errorf("requeued %v, want the longest dead, then by name", done)
	}
	b.until(t, 9+9+9+3, `SELECT count(*) FROM projection.entries`)
	if err := p.Requeue(t.Context(), "a"); !errors.Is(err, projection.ErrNotDead) {
		t.Errorf("requeue of a living stream: %v", err)
	}
	if err := p.Requeue(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	b.until(t, 4*9, `SELECT count(*) FROM projection.entries`)
	clean(t, p)
}

// What no retry can heal is dead at once; a panic is an error like others.
func TestPermanentErrorsAndPanics(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("never", "never", 1)...)
	b.append(t, events("panic", "panic", 1)...)
	p := b.make(t, projection.Outbox)
	b.start(t, p)
	b.until(t, 2, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL`)
	list, err := p.List(t.Context(), projection.Dead, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("list %+v, %v", list, err)
	}
	for _, s := range list {
		attempts, text := 1, errNever.Error()
		if s.Stream == "panic" {
			attempts, text = 8, "no events of this type, please"
		}
		if s.Attempts != attempts || !strings.Contains(s.LastError, text) || s.State != projection.Dead {
			t.Errorf("%+v, want %d attempts and %q", s, attempts, text)
		}
	}
}

// A constraint that is looked at with the commit blames no event by itself: the batch is halved until one is left.
func TestARefusedCommitIsNarrowedDown(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "sole", 1)...)
	b.append(t, events("a", "paid", 6)...)
	b.append(t, events("a", "sole", 1)...) // the second of its kind
	b.append(t, events("a", "paid", 3)...)
	p := b.make(t, projection.Outbox)
	b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL AND applied_version = 7`)
	if n := b.count(t, `SELECT count(*) FROM projection.entries`); n != 7 {
		t.Errorf("%d events applied, want the 7 before the one that is refused", n)
	}
}

// The shadow does everything elsewhere: the live projection is not touched, and after more failures than kill an event
// not one attempt is counted.
func TestAShadowBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "paid", 2)...)
	b.append(t, events("a", "poison", 1)...)
	b.append(t, events("fine", "paid", 2)...)
	live := b.make(t, projection.Outbox)
	stop := b.start(t, live)
	b.until(t, 1, `SELECT count(*) FROM projection.projection_streams WHERE dead_at IS NOT NULL`)
	stop()
	const all = `SELECT coalesce(md5(string_agg(s::text, ',' ORDER BY stream_id)), '') = $1 FROM projection.projection_streams AS s`
	var before string
	const now = `SELECT md5(string_agg(s::text, ',' ORDER BY stream_id)) FROM projection.projection_streams AS s`
	if err := b.pool.QueryRow(t.Context(), now).Scan(&before); err != nil {
		t.Fatal(err)
	}
	shadow := b.make(t, projection.Shadow)
	b.start(t, shadow)
	b.untilTrue(t, "the shadow has failed twenty times", func(context.Context) (bool, error) {
		return strings.Contains(b.log.text(), "failures=20 "), nil
	})
	b.until(t, 4, `SELECT count(*) FROM projection_shadow.entries`)
	if n := b.count(t, `SELECT count(*) FROM projection_shadow.projection_streams WHERE attempts > 0 OR dead_at IS NOT NULL`); n > 0 {
		t.Errorf("%d streams of the shadow have attempts", n)
	}
	s := summary(t, shadow)
	if s.Dead != 0 || s.Current != 1 {
		t.Errorf("summary %+v", s)
	}
	var same bool
	if err := b.pool.QueryRow(t.Context(), all, before).Scan(&same); err != nil || !same {
		t.Errorf("the live schedule was touched: %v", err)
	}
	b.sums.heal()
	b.until(t, 5, `SELECT count(*) FROM projection_shadow.entries`)
	clean(t, shadow)
	if n := b.count(t, `SELECT count(*) FROM projection.entries`); n != 4 {
		t.Errorf("%d entries in the live projection, want 4", n)
	}
}

// A failing event is named and shown as what is tried next.
func TestSummaryShowsTheOldestRetry(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "poison", 1)...)
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.BackoffBase, c.BackoffMax = 1<<40, 1<<41 })
	b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.projection_streams WHERE attempts = 1 AND due_at > clock_timestamp()`)
	s := summary(t, p)
	if s.Failed != 1 || s.OldestRetry == nil || s.OldestRetry.Stream != "a" || s.OldestRetry.Expected != 1 ||
		!strings.Contains(s.OldestRetry.LastError, errPoison.Error()) {
		t.Errorf("summary %s", fmt.Sprintf("%+v %+v", s, s.OldestRetry))
	}
}
