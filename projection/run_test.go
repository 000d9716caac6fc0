package projection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/projection"
)

// Three processes, as far as the database can tell, share the work; every event is applied once and in order.
func TestEveryEventIsAppliedOnceInOrder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const streams, each = 20, 30
	for i := range streams {
		b.append(t, events(fmt.Sprint("account ", i), "paid", each/2)...)
	}
	for range 3 {
		b.start(t, b.make(t, projection.Outbox, func(c *projection.Config) { c.BatchEvents, c.Workers = 4, 2 }))
	}
	for i := range streams {
		b.append(t, events(fmt.Sprint("account ", i), "paid", each/2)...)
	}
	b.until(t, streams*each, `SELECT count(*) FROM projection.entries`)
	if wrong := b.count(t, `SELECT count(*) FROM projection.sums WHERE events <> $1 OR total <> $2`, each, each/2*(each/2+1)); wrong > 0 {
		t.Errorf("%d streams have a wrong sum", wrong)
	}
	p := b.make(t, projection.Outbox)
	clean(t, p)
	if s := summary(t, p); s.Current != streams || s.EventsBehind != 0 {
		t.Errorf("summary %+v", s)
	}
}

// Messages are the doorbell: with a sweep that never comes again they alone tell what is new.
func TestMessagesWakeTheWorkers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	js := natstest.Start(t, 1).JetStream(t)
	if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.JetStream, c.SweepInterval, c.PollInterval = js, time.Hour, time.Minute
	})
	b.append(t, events("before", "paid", 1)...)
	b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.entries`) // found at start
	b.append(t, events("known", "paid", 3)...)
	for _, version := range []string{"3", "1", "3", "2"} { // repeats and an order that is none
		publish(t, js, "known", version)
	}
	publish(t, js, "", "no number")
	b.until(t, 4, `SELECT count(*) FROM projection.entries`)
	b.append(t, events("known", "paid", 1)...)
	publish(t, js, "known", "4")
	b.until(t, 5, `SELECT count(*) FROM projection.entries`)
	consumer, err := js.Consumer(t.Context(), "EVENTS", p.Durable())
	if err != nil {
		t.Fatal(err)
	}
	b.untilTrue(t, "all messages are acknowledged", func(ctx context.Context) (bool, error) {
		info, err := consumer.Info(ctx)
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0, err
	})
	clean(t, p)
}

// Audit-only events in the middle and at the end are passed; nobody announces the last ones, and nobody misses them.
func TestAuditOnlyEventsLeaveNoGap(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	silent := func(stream string) outbox.Event {
		return outbox.Event{StreamID: stream, Type: "seen", Payload: []byte("1000"), AuditOnly: true}
	}
	b.append(t, silent("only"), silent("mixed"))
	b.append(t, events("mixed", "paid", 2)...)
	b.append(t, silent("mixed"))
	b.append(t, events("mixed", "paid", 2)...)
	registry := prometheus.NewRegistry()
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.Registerer = registry })
	b.start(t, p)
	b.until(t, 6, `SELECT applied_version FROM projection.projection_streams WHERE stream_id = 'mixed'`)
	b.append(t, silent("mixed"), silent("mixed"))
	clean(t, p)
	b.append(t, events("mixed", "paid", 1)...)
	b.until(t, 9, `SELECT applied_version FROM projection.projection_streams WHERE stream_id = 'mixed'`)
	if n := b.count(t, `SELECT events FROM projection.sums WHERE account = 'mixed'`); n != 5 {
		t.Errorf("%d events applied, want 5", n)
	}
	clean(t, p)
	if n := b.count(t, `SELECT count(*) FROM projection.projection_streams`); n != 1 {
		t.Errorf("%d streams in the schedule, want 1: there is nothing to apply in the other", n)
	}
	if err := testutil.GatherAndCompare(registry, expected(`
# HELP outbox_projection_audit_only_total Audit-only events that the watermark passed.
# TYPE outbox_projection_audit_only_total counter
outbox_projection_audit_only_total{projection="projection"} 4
`), "outbox_projection_audit_only_total"); err != nil {
		t.Error(err)
	}
}

// A stream with a long backlog of slow events is applied beside the others, not before them; and idle hands wait for
// nothing while there is work: the ancestor's ceiling was 32 events a second.
func TestABusyStreamStarvesNobody(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	gate := make(chan struct{})
	b.sums.hook = func(ctx context.Context, _ pgx.Tx, e projection.Event) error {
		if e.Stream != "busy" {
			return nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil
	}
	b.append(t, events("busy", "paid", 400)...)
	for i := range 300 {
		b.append(t, events(fmt.Sprint("quick ", i), "paid", 4)...)
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.PollInterval, c.SweepInterval, c.BatchEvents, c.Workers = time.Minute, time.Hour, 10, 2
	})
	started := time.Now()
	b.start(t, p)
	b.until(t, 1200, `SELECT count(*) FROM projection.entries WHERE account <> 'busy'`)
	took := time.Since(started)
	t.Logf("1200 events of 300 streams after %s: %.0f events/s", took.Round(time.Millisecond), 1200/took.Seconds())
	close(gate)
	b.until(t, 400, `SELECT count(*) FROM projection.entries WHERE account = 'busy'`)
	clean(t, p)
}

// A deadlock, a lock, a limit of the session, a connection that ends, a server that shuts the session down: no attempt is counted.
func TestAnOutageCountsNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	tries := make(chan struct{}, 100)
	remaining := 12 // more than an event has attempts
	b.sums.hook = func(ctx context.Context, tx pgx.Tx, _ projection.Event) error {
		if remaining--; remaining < 0 {
			return nil
		}
		tries <- struct{}{}
		var attempts int
		if err := tx.QueryRow(ctx, `SELECT attempts FROM projection.projection_streams`).Scan(&attempts); err != nil || attempts != 0 {
			t.Errorf("%d attempts are counted, %v", attempts, err)
		}
		statement := `SELECT pg_terminate_backend(pg_backend_pid())`
		if codes := []string{"40P01", "55P03", "25P03", "25P04"}; remaining%6 < len(codes) {
			statement = `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '` + codes[remaining%6] + `'; END $$`
		}
		_, err := tx.Exec(ctx, statement)
		return err
	}
	b.append(t, events("a", "paid", 1)...)
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.Workers = 1 })
	b.start(t, p)
	b.until(t, 1, `SELECT count(*) FROM projection.entries`)
	if len(tries) != 12 {
		t.Errorf("%d tries failed, want 12", len(tries))
	}
	if s := summary(t, p); s.Current != 1 {
		t.Errorf("summary %+v", s)
	}
}

// unsummed is sums without fingerprints.
type unsummed struct{ *sums }

func (u unsummed) Tables() []projection.Table {
	tables := u.sums.Tables()
	for i := range tables {
		tables[i].Unchecked = true
	}
	return tables
}

// The events may lie in another database, and tables may do without fingerprints; the integrity check looks at these all
// the same.
func TestTheJournalMayBeElsewhere(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	here := pgtest.Pool(t, pgtest.URL(t))
	b.append(t, events("a", "paid", 7)...)
	p := b.make(t, projection.Outbox, func(c *projection.Config) { c.Pool, c.Journal, c.Projector = here, b.pool, unsummed{b.sums} })
	b.start(t, p)
	b.append(t, events("b", "paid", 7)...)
	b.untilTrue(t, "all is applied", func(ctx context.Context) (bool, error) {
		s, err := p.Summary(ctx)
		return err == nil && s.Current == 2 && s.Streams() == 2 || b.log.failure() != nil, b.log.failure()
	})
	clean(t, p)
	if _, err := here.Exec(t.Context(), `DELETE FROM projection.entries WHERE account = 'b' AND version = 3`); err != nil {
		t.Fatal(err)
	}
	report, err := p.Detect(t.Context(), 0)
	if err != nil || len(report.Gaps) != 0 {
		t.Errorf("gaps in unchecked tables: %+v, %v", report, err)
	}
	if integrity, err := p.CheckIntegrity(t.Context(), nil); err != nil || len(integrity.Differences) != 1 {
		t.Errorf("integrity %+v, %v", integrity, err)
	}
}

// Times of a journal that another wrote are applied within bounds.
func TestFarTimesAreApplied(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("far", "paid", 4)...)
	for version, far := range []string{"infinity", "-infinity", "294276-12-31Z", "4713-01-01Z BC"} {
		if _, err := b.pool.Exec(t.Context(), `UPDATE events SET occurred_at = $1::text::timestamptz, recorded_at = $1::text::timestamptz WHERE stream_version = $2`, far, version+1); err != nil {
			t.Fatal(err)
		}
	}
	b.start(t, b.make(t, projection.Outbox))
	b.until(t, 4, `SELECT applied_version FROM projection.projection_streams WHERE stream_id = 'far'`)
}
