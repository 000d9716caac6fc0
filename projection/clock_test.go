package projection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/projection"
)

// What was planned before the database's clock stepped back does not wait for it: neither what is due at once, nor what
// failed, nor what an owner had that died. Its lease is watched first, for as long as it lasts.
func TestNoStreamWaitsForAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const ttl = time.Second
	const dead = `'00000000-0000-7000-8000-000000000001'`
	p := b.make(t, projection.Outbox)
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"new", "failed", "leased"} {
		b.append(t, events(stream, "paid", 1)...)
	}
	b.exec(t, `INSERT INTO projection.projection_streams (stream_id, wanted_version, due_at, planned_at, attempts, last_error, lease_owner, lease_epoch, lease_until)
		SELECT s, 1, clock_timestamp() + interval '1 hour' + for_time, clock_timestamp() + interval '1 hour', tries, error, owner, 1, clock_timestamp() + until
		  FROM (VALUES ('new', interval '0', 0, NULL, NULL::uuid, NULL::interval),
		               ('failed', interval '10 ms', 1, 'not yet', NULL, NULL),
		               ('leased', interval '1 s', 0, NULL, `+dead+`, interval '1 hour 1 s')) AS v (s, for_time, tries, error, owner, until)`)
	began := time.Now()
	b.start(t, p)
	b.until(t, 2, `SELECT count(*) FROM projection.entries WHERE account <> 'leased'`)
	b.until(t, 3, `SELECT count(*) FROM projection.entries`)
	if waited := time.Since(began); waited < ttl {
		t.Errorf("a lease was taken over after %v, though it lasts %v", waited, ttl)
	}
	b.until(t, 3, `SELECT count(*) FROM projection.projection_streams WHERE due_at IS NULL AND lease_owner IS NULL AND applied_version = 1`)
}

// The latency is told by one clock, whatever this machine's says beside the database's.
func TestTheLatencyIsOfOneClock(t *testing.T) {
	t.Parallel()
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{pool: pgtest.Pool(t, server.URL()), producer: producer, sums: &sums{}, log: &recorder{}}
	for n, ahead := range []time.Duration{-time.Hour, time.Hour} {
		clock.Move(t, ahead)
		registry := prometheus.NewRegistry()
		stop := b.start(t, b.make(t, projection.Outbox, func(c *projection.Config) { c.Registerer = registry }))
		b.append(t, events(fmt.Sprint("s-", n), "paid", 1)...)
		b.until(t, n+1, `SELECT count(*) FROM projection.entries`)
		stop()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			h := f.GetMetric()[0].GetHistogram()
			if f.GetName() == "outbox_projection_latency_seconds" && (h.GetSampleCount() != 1 || h.GetSampleSum() <= 0 || h.GetSampleSum() > 600) {
				t.Errorf("with the database's clock %v ahead: %d events took %g s", ahead, h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}
}

// An event that was recorded before the clock stepped back is not on its way any more.
func TestAGapIsFoundBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	p := b.make(t, projection.Outbox)
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.append(t, events("a", "paid", 1)...)
	b.exec(t, `UPDATE events SET recorded_at = clock_timestamp() + interval '1 hour'`)
	report, err := p.Detect(t.Context(), projection.Grace)
	if err != nil || len(report.Gaps) != 1 || report.Gaps[0].Kind != projection.MissingWatermark {
		t.Errorf("gaps %+v, %v", report.Gaps, err)
	}
}
