package loop_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox/schema"
)

// setupMovable is setupOwn with a clock that moves.
func setupMovable(t *testing.T, partitions int) (*bundle, *pgtest.Clock) {
	t.Helper()
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return setupAt(t, server.URL(), partitions), clock
}

// What nobody scheduled goes out in its order although the database's clock has stepped back behind all the times that
// were written: what is ready, begins anew, leads its stream since another row went, or waits for another attempt.
func TestNothingThatNobodyScheduledWaitsForTheClock(t *testing.T) {
	t.Parallel()
	for _, behind := range []delivery.FailurePolicy{delivery.BehindStream, delivery.BehindNone} {
		t.Run(string(behind), func(t *testing.T) {
			t.Parallel()
			b, clock := setupMovable(t, 1)
			ready, anew, failed, led := b.append(t, "ready", `1`), b.append(t, "anew", `1`), b.append(t, "failed", `1`), b.append(t, "failed", `2`)
			later := b.append(t, "later", `1`, "available_at => clock_timestamp() + interval '1 minute'")
			b.exec(t, `UPDATE outbox SET parked = true WHERE global_sequence = $1`, anew)
			b.exec(t, `UPDATE outbox SET parked = true, blocked = attempts > 0 WHERE global_sequence = $1`, led)
			b.exec(t, `UPDATE outbox SET parked = true, attempts = 1, available_at = clock_timestamp() + interval '1 second' WHERE global_sequence = $1`, failed)
			clock.Move(t, -time.Hour)
			if s := b.state(t, anew); s.State != "pending" {
				t.Errorf("nobody scheduled the event, and it is %s", s.State)
			}
			next := b.append(t, "ready", `2`)
			b.acquireAll(t, b.keeper)
			b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond, Failure: behind}))
			b.until(t, `SELECT count(*) FROM outbox`, 1)
			if s := b.state(t, later); s.State != "scheduled" {
				t.Errorf("somebody scheduled the event, and it is %s", s.State)
			}
			stored := b.stored(t)
			if got := sequencesOf(stored, "ready"); !slices.Equal(got, texts(ready, next)) {
				t.Errorf("stored %v, want %d before %d", got, ready, next)
			}
			if got := sequencesOf(stored, "failed"); behind != delivery.BehindNone && !slices.Equal(got, texts(failed, led)) {
				t.Errorf("stored %v, want %d before %d", got, failed, led)
			}
		})
	}
}

// A clock that goes back and forth between two events lets none of a partition pass another one.
func TestTheOrderOfAPartitionNeedsNoClock(t *testing.T) {
	t.Parallel()
	b, clock := setupMovable(t, 1)
	var want []int64
	for _, ahead := range []time.Duration{0, -time.Minute, time.Hour, -20 * time.Millisecond, 0, -300 * time.Millisecond, 0, -time.Hour} {
		clock.Move(t, ahead)
		want = append(want, b.append(t, "s", `1`), b.append(t, "t", `1`))
	}
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond}))
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	var got []string
	for _, m := range b.stored(t) {
		got = append(got, m.Header.Get(message.HeaderSequence))
	}
	if !slices.Equal(got, texts(want...)) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// A transaction that holds the watermark back is named although the database's clock has stepped back since.
func TestWhatHoldsTheWatermarkIsNamedBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	b, clock := setupMovable(t, 1)
	first, second := b.begin(t), b.begin(t)
	low := appendIn(t, first, "s")
	b.append(t, "t", `1`)
	b.wantHeldBelow(t, low)
	appendIn(t, second, "u")
	clock.Move(t, -time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for st := (pgstore.Stall{}); st.Waiting == 0 || len(st.Holders) < 2; {
		if _, err := b.store.Advance(ctx, 1); err != nil {
			t.Fatalf("it waits for %s, for %v: %v", st.Waiting, st.Holders, err)
		}
		var err error
		if st, err = b.store.Watermark(ctx); err != nil {
			t.Fatalf("it waits for %s, for %v: %v", st.Waiting, st.Holders, err)
		}
	}
}
