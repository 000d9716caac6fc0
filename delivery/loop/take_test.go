package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/message"
)

// dying publishes and then behaves as a process that ended before its mark.
type dying struct{ delivery.Publisher }

func (d dying) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	d.Publisher.Publish(look, func(i int, outcomes []delivery.Outcome) {
		look[i].Lease.Lost()
		done(i, make([]delivery.Outcome, len(outcomes)))
	})
}

// expireAll ends every lease as if its owner had crashed, and gives everything to
// a new keeper.
func (b *bundle) succeed(t *testing.T) {
	t.Helper()
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	b.keeper = b.newKeeper(t)
	b.acquireAll(t, b.keeper)
}

// succeedAlone has one without leases take the place of the former.
func (b *bundle) succeedAlone(t *testing.T) {
	t.Helper()
	b.keeper = b.newKeeper(t)
	if _, err := b.keeper.AcquireSolo(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What an owner published and did not mark is marked by its heir, not published
// again.
func TestAnHeirMarksWhatTheStreamHolds(t *testing.T) {
	t.Parallel()
	eachStoring(t, 2, func(t *testing.T, b *bundle) {
		t.Helper()
		var want []string
		for i := range 40 {
			want = append(want, texts(b.append(t, "s", fmt.Sprint(i)))...)
		}
		b.acquireAll(t, b.keeper)
		r := b.relayOver(t, dying{b.publisher(t)}, loop.Config{BatchSize: 15})
		b.drain(t, r)
		b.until(t, `SELECT count(*) FROM outbox`, 40)
		for range 3 { // each publishes one batch and dies
			b.succeed(t)
			r := b.relayOver(t, dying{b.publisher(t)}, loop.Config{BatchSize: 15})
			b.drain(t, r)
		}
		b.succeed(t)
		b.drain(t, b.relay(t, loop.Config{}))
		b.until(t, `SELECT count(*) FROM outbox`, 0)
		messages := b.stored(t)
		if got := sequencesOf(messages, "s"); !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published' AND attempts = 0`, 40)
		for _, m := range messages { // the history knows each position
			b.until(t, fmt.Sprintf(`SELECT stream_sequence FROM outbox_messages WHERE global_sequence = %s`, m.Header.Get(message.HeaderSequence)), int(m.Sequence))
		}
	})
}

func purge(t *testing.T, b *bundle) {
	t.Helper()
	if err := b.stream(t).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func remake(t *testing.T, b *bundle) {
	t.Helper()
	config := b.config(t)
	if err := b.js.DeleteStream(t.Context(), streams.DefaultStream); err != nil {
		t.Fatal(err)
	}
	b.server.Stream(t, 1, func(s *jetstream.StreamConfig) { *s = config })
}

// Acknowledged messages that the stream lost are published again from the history,
// once, in order, and the loss is counted; by policy it is only counted.
func TestLostMessagesAreHealed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    func(*testing.T, *bundle)
		store   func(*bundle, *testing.T)
		policy  delivery.Lost
		running bool // the relay notices by itself; else its heir does
		want    int
	}{
		"purged, seen by the heir":             {purge, (*bundle).inBatches, "", false, 30},
		"made anew, seen by the heir":          {remake, (*bundle).inBatches, "", false, 30},
		"made anew, seen by the idle owner":    {remake, (*bundle).inBatches, "", true, 30},
		"purged, seen by the idle owner":       {purge, (*bundle).inBatches, "", true, 30},
		"made anew, one by one":                {remake, (*bundle).oneByOne, "", true, 30},
		"made anew, with the policy to report": {remake, (*bundle).inBatches, delivery.LostReport, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 3)
			c.store(b, t)
			var want []string
			for i := range 30 {
				sequence := b.append(t, fmt.Sprintf("s-%d", i%5), `1`)
				if i%5 == 2 {
					want = append(want, texts(sequence)...)
				}
			}
			cfg := loop.Config{Lost: c.policy, ExtentInterval: 100 * time.Millisecond, PollInterval: 5 * time.Millisecond}
			b.acquireAll(t, b.keeper)
			r := b.relay(t, cfg)
			stop := b.start(t, r)
			b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 30)
			if !c.running {
				stop()
			}
			c.lose(t, b)
			if !c.running {
				b.succeed(t)
				r = b.relay(t, cfg)
				b.drain(t, r)
			}
			if c.want > 0 {
				b.until(t, `SELECT count(DISTINCT partition_key) FROM outbox_deliveries WHERE lost_after IS NOT NULL`, b.count)
				b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 30)
			}
			if r.Stats().Losses == 0 {
				t.Error("the loss was not counted")
			}
			got := 0
			b.eachEvent(t, func(jetstream.Msg) { got++ })
			if got != c.want {
				t.Errorf("the stream holds %d events, want %d", got, c.want)
			}
			if c.want == 0 {
				return
			}
			if got := sequencesOf(b.stored(t), "s-2"); !slices.Equal(got, want) {
				t.Errorf("stored %v, want %v", got, want)
			}
			// Healed means healed: the next owner sees no loss.
			b.succeed(t)
			again := b.relay(t, cfg)
			b.drain(t, again)
			if s := again.Stats(); s.Losses != 0 || s.Published != 0 {
				t.Errorf("the next owner sees %+v", s)
			}
		})
	}
}

// A takeover that fails after its record was written does not hide the loss from
// the next one.
func TestAFailedHealingIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for range 10 {
		b.append(t, "s", `1`)
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	purge(t, b)
	b.succeed(t) // and ends before it heals
	if _, err := b.publisher(t).Take(t.Context(), b.keeper.Set().Held()[0], delivery.Known{}); err != nil {
		t.Fatal(err)
	}
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	if got := len(sequencesOf(b.stored(t), "s")); got != 10 {
		t.Errorf("%d messages are stored, want 10", got)
	}
}

// Marks that a crash of the database took back are not published again by the
// owner that lives on.
func TestMarksThatCameBackArePublishedOnce(t *testing.T) {
	t.Parallel()
	for _, order := range []delivery.Ordering{delivery.OrderPartition, delivery.OrderStream} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			for range 10 {
				b.append(t, "s", `1`)
			}
			b.exec(t, `CREATE TABLE kept AS SELECT * FROM outbox`)
			b.acquireAll(t, b.keeper)
			b.start(t, b.relay(t, loop.Config{Ordering: order, PollInterval: 5 * time.Millisecond, SweepInterval: 100 * time.Millisecond}))
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			b.crash(t,
				`WITH gone AS (DELETE FROM outbox_deliveries) INSERT INTO outbox SELECT * FROM kept`,
				`UPDATE outbox_partitions SET revision = revision - 1, delivered = 0, fence_sequence = 0, stream_sequence = 0`,
				`SELECT outbox_append('s', 'thing.done', '2')`)
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			if got := len(sequencesOf(b.stored(t), "s")); got != 11 {
				t.Errorf("%d messages are stored, want 11", got)
			}
		})
	}
}

// Where losses are only reported the database's positions stay those of the stream that was: what its heir finds in the new one is marked
// all the same, and not published again.
func TestAnHeirMarksWhatTheNewStreamHolds(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for range 40 {
		b.append(t, "s", `1`)
	}
	b.deliver(t)
	remake(t, b)
	for range 12 {
		b.append(t, "s", `2`)
	}
	b.exec(t, `CREATE TABLE kept AS SELECT * FROM outbox; CREATE TABLE was AS SELECT * FROM outbox_partitions`)
	report := func() {
		b.succeed(t)
		b.drain(t, b.relay(t, loop.Config{Lost: delivery.LostReport, BatchSize: 4}))
		b.until(t, `SELECT count(*) FROM outbox`, 0)
	}
	report()
	// As if the owner had died before its marks, and a crash had taken back what it noted of the loss.
	b.exec(t, `UPDATE outbox_partitions AS p SET fence_sequence = w.fence_sequence, stream_sequence = w.stream_sequence, lost_sequence = 0 FROM was AS w`)
	b.exec(t, `DELETE FROM outbox_deliveries WHERE first_sequence IN (SELECT global_sequence FROM kept)`)
	b.exec(t, `INSERT INTO outbox SELECT * FROM kept`)
	report()
	if got := len(sequencesOf(b.stored(t), "s")); got != 12 {
		t.Errorf("%d messages are stored, want 12", got)
	}
}

// crash ends all sessions, and leaves what the statements make of the database: what is left is older than the marks.
func (b *bundle) crash(t *testing.T, statements ...string) {
	t.Helper()
	pooled, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := pooled.Hijack() // the pool must not lend this one again, either
	const others = `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range append([]string{others}, statements...) {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.pool.Reset()
}

// A park that a crash of the database took back: what comes later in its stream does not pass the row, although it lies
// above the cursor.
func TestAParkThatCameBackHoldsItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	missing := b.append(t, "s", `1`)
	b.exec(t, `DELETE FROM events WHERE sequence = $1`, missing)
	b.append(t, "other", `1`)
	b.acquireAll(t, b.keeper)
	hour := delivery.RetryPolicy{Base: time.Hour, Factor: 1, Max: time.Hour, Jitter: delivery.JitterNone}
	b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond, SweepInterval: time.Hour, Retry: hour}))
	b.until(t, `SELECT count(*) FROM outbox WHERE parked AND attempts = 1`, 1)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	b.crash(t,
		`UPDATE outbox_partitions SET revision = revision - 1`,
		`UPDATE outbox SET parked = false, attempts = 0, last_error = NULL, failures = NULL, available_at = clock_timestamp()`,
		`SELECT outbox_append('s', 'thing.done', '2')`)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE stream_id = 's' AND state IN ('blocked', 'published')`, 1)
	if got := sequencesOf(b.stored(t), "s"); len(got) != 0 {
		t.Errorf("the stream holds %v of s: something passed what had failed", got)
	}
}

// A database that forgot published events and uses their sequences again: the new
// events are published, under a new generation, and it is written down.
func TestAForgetfulDatabaseIsNotConfused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for i := range 5 {
		b.append(t, "before", fmt.Sprint(i))
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	// A standby that never saw them is promoted, and other events come.
	b.exec(t, `TRUNCATE events, outbox, outbox_deliveries RESTART IDENTITY`)
	b.exec(t, `UPDATE outbox_watermark SET safe_sequence = 0`)
	for i := range 7 {
		if sequence := b.append(t, "after", fmt.Sprint(i)); sequence != int64(i+1) {
			t.Fatalf("the sequence is %d", sequence)
		}
	}
	b.succeed(t)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	messages := b.stored(t)
	if got, want := sequencesOf(messages, "after"), texts(1, 2, 3, 4, 5, 6, 7); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	for _, m := range messages {
		if m.Header.Get(message.HeaderStream) == "after" && m.Header.Get(message.HeaderGeneration) != "1" {
			t.Errorf("generation %q", m.Header.Get(message.HeaderGeneration))
		}
	}
	if s := r.Stats(); s.Regressions != 1 {
		t.Errorf("stats %+v", s)
	}
	b.until(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`, 1)
	b.until(t, `SELECT generation FROM outbox_settings`, 1)
}

// killedBy ends its worker when it is to publish one message: nothing is published
// and nothing is marked.
type killedBy struct {
	delivery.Publisher
	sequence int64
}

func (k killedBy) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i, b := range look {
		if slices.ContainsFunc(b.Messages, func(m delivery.Message) bool { return m.Sequence == k.sequence }) {
			b.Lease.Lost()
			done(i, make([]delivery.Outcome, len(b.Messages)))
			continue
		}
		k.Publisher.Publish(look[i:i+1], func(_ int, outcomes []delivery.Outcome) { done(i, outcomes) })
	}
}
