package projection_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/projection"
)

// News of a stream that is being applied cannot be written down. The news of all others can: neither the listener, nor the
// sweep, nor a start waits for the one that is slow.
func TestABusyStreamHoldsUpNoNews(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	js := natstest.Start(t, 1).JetStream(t)
	if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	b.sums.hook = func(ctx context.Context, _ pgx.Tx, e projection.Event) error {
		if e.Stream == "busy" && e.Version == 1 {
			entered <- struct{}{}
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		return nil
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.JetStream, c.SweepInterval, c.PollInterval = js, time.Hour, time.Minute
	})
	b.append(t, events("busy", "paid", 1)...)
	b.start(t, p)
	<-entered
	b.append(t, events("busy", "paid", 3)...)
	for _, version := range []string{"2", "3", "4", "3"} {
		publish(t, js, "busy", version)
	}
	b.append(t, events("other", "paid", 1)...)
	publish(t, js, "other", "1")
	b.until(t, 1, `SELECT count(*) FROM projection.entries WHERE account = 'other'`)
	consumer, err := js.Consumer(t.Context(), "EVENTS", p.Durable())
	if err != nil {
		t.Fatal(err)
	}
	unacknowledged := func(want int) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			info, err := consumer.Info(ctx)
			return err == nil && info.NumAckPending == want && info.NumPending == 0, err
		}
	}
	b.untilTrue(t, "one message stands for all of its stream", unacknowledged(1))

	sweeping := b.make(t, projection.Outbox) // without messages, every 50 ms, while the first one has the row
	b.append(t, events("late", "paid", 1)...)
	b.start(t, sweeping)
	b.until(t, 1, `SELECT count(*) FROM projection.entries WHERE account = 'late'`)
	b.append(t, events("later", "paid", 1)...)
	b.until(t, 1, `SELECT count(*) FROM projection.entries WHERE account = 'later'`)

	close(gate)
	b.until(t, 4, `SELECT count(*) FROM projection.entries WHERE account = 'busy'`)
	b.untilTrue(t, "all messages are acknowledged", unacknowledged(0))
	clean(t, p)
}

// Whoever may publish can write anything into headers. It neither keeps the listener from the messages behind it nor the
// summary from counting.
func TestHostileMessagesStopNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	js := natstest.Start(t, 1).JetStream(t)
	if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.JetStream, c.SweepInterval, c.PollInterval = js, time.Hour, time.Minute
	})
	b.start(t, p)
	for _, stream := range []string{"\xff\xfe", "a\x00b", strings.Repeat("x", 9000), ""} {
		publish(t, js, stream, "1")
	}
	for _, version := range []string{"0", "-1", "9223372036854775808", "x"} {
		publish(t, js, "a", version)
	}
	b.append(t, events("a", "paid", 1)...)
	publish(t, js, "a", "1")
	b.until(t, 1, `SELECT count(*) FROM projection.entries`)
	clean(t, p)

	publish(t, js, "ghost", "9223372036854775807")
	publish(t, js, "another", "9223372036854775807")
	b.until(t, 2, `SELECT count(*) FROM projection.projection_streams WHERE wanted_version = $1`, int64(math.MaxInt64))
	if s := summary(t, p); s.EventsBehind != math.MaxInt64 || s.Streams() != 3 {
		t.Errorf("summary %+v", s)
	}
	report, err := p.Detect(t.Context(), 0)
	if err != nil || len(report.Gaps) != 2 || report.Gaps[0].Kind != projection.Ahead {
		t.Errorf("gaps %+v, %v", report.Gaps, err)
	}
}

// wayward breaks what Apply has to keep to.
type wayward struct{ unsummed } // without fingerprints, which would find out

func (w wayward) Apply(ctx context.Context, tx pgx.Tx, e projection.Event) error {
	switch e.Type {
	case "deaf": // takes no notice of the end of its time
		<-ctx.Done()
		return nil
	case "committed": // and the error is ignored
		_ = tx.Commit(ctx)
	case "undone":
		_, _ = tx.Exec(ctx, `ROLLBACK`)
		return nil
	case "swallowed":
		_, _ = tx.Exec(ctx, `SELECT 1/0`)
		return nil
	}
	return w.sums.Apply(ctx, tx, e)
}

// An event whose Apply overruns its time without saying so, ends the transaction, or hides the database's error is the one
// that fails, and dies: what comes before it is applied, and it is not tried for ever.
func TestWaywardApplyIsBlamed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	kinds := []string{"deaf", "undone", "swallowed"}
	b.append(t, events("committed", "committed", 2)...)
	for _, kind := range kinds {
		b.append(t, events(kind, "paid", 3)...)
		b.append(t, events(kind, kind, 1)...)
		b.append(t, events(kind, "paid", 2)...)
	}
	b.start(t, b.make(t, projection.Outbox, func(c *projection.Config) {
		c.Projector, c.LeaseTTL, c.MaxAttempts = wayward{unsummed{b.sums}}, 300*time.Millisecond, 2
	}))
	for _, kind := range kinds {
		b.until(t, 1, `SELECT count(*) FROM projection.projection_streams WHERE stream_id = $1 AND dead_at IS NOT NULL
			AND applied_version = 3 AND attempts = 2`, kind)
	}
	b.until(t, 3*len(kinds)+2, `SELECT count(*) FROM projection.entries`)
	if n := b.count(t, `SELECT count(*) FROM projection.projection_streams WHERE stream_id = 'committed' AND applied_version = 2`); n != 1 {
		t.Error("a commit that was refused stopped the stream")
	}
}

// A check that was killed leaves its schema to the next one, which touches neither those of checks that run nor others.
func TestScratchOfKilledChecksIsDropped(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.append(t, events("a", "paid", 3)...)
	p := b.make(t, projection.Outbox)
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	b.start(t, p)
	b.until(t, 3, `SELECT count(*) FROM projection.entries`)
	b.exec(t, `CREATE SCHEMA projection_scratch_aaaaaaaa;
		COMMENT ON SCHEMA projection_scratch_aaaaaaaa IS 'postrider: scratch of an integrity check';
		CREATE TABLE projection_scratch_aaaaaaaa.sums (n int); CREATE SCHEMA projection_scratch_bbbbbbbb`)
	b.sums.mu.Lock()
	b.sums.hook = func(context.Context, pgx.Tx, projection.Event) error { entered <- struct{}{}; <-gate; return nil }
	b.sums.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		report, err := p.CheckIntegrity(t.Context(), nil)
		if err == nil && !report.Equal {
			t.Errorf("the first check finds %+v", report.Differences)
		}
		ended <- err
	}()
	<-entered
	b.sums.mu.Lock()
	b.sums.hook = nil
	b.sums.mu.Unlock()
	clean(t, p) // while the other one is under way
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := b.count(t, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%scratch%'`); n != 1 {
		t.Errorf("%d scratch schemas are left, want the one that is nobody's", n)
	}
}

// Processes that start together get to know the same new streams at the same time, each in an order of its own.
func TestNewsOfTheSameNewStreamsFromSeveralProcesses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const rounds, streams = 3, 2000
	known := make([]*projection.Projection, 3)
	for i := range known {
		known[i] = b.make(t, projection.Outbox)
		if err := known[i].Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		versions := make(map[string]int64, streams)
		for n := range streams {
			versions[fmt.Sprintf("%d of round %d", n, round)] = 1
		}
		var telling sync.WaitGroup
		for _, p := range known {
			telling.Go(func() {
				if _, err := p.Announce(t.Context(), versions); err != nil {
					t.Error(err)
				}
			})
		}
		telling.Wait()
	}
	if n := b.count(t, `SELECT count(*) FROM projection.projection_streams`); n != rounds*streams {
		t.Errorf("%d streams are known, want %d", n, rounds*streams)
	}
}
