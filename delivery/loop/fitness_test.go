package loop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/message"
)

// fitting is a relay that looks at its stream often, with what it says of it.
func (b *bundle) fitting(t *testing.T) (*loop.Relay, ticking, *condition.Board) {
	t.Helper()
	fenced := b.publisher(t)
	p, board := ticking{fenced, make(chan struct{})}, condition.NewBoard(testLogger(t), wire.Reason)
	r := b.relayOver(t, p, loop.Config{ExtentInterval: 100 * time.Millisecond, Board: board})
	return r, p, board
}

func unfit(board *condition.Board) bool {
	first := board.First()
	return first != nil && first.Reason == condition.StreamUnfit
}

// config is how the stream is set.
func (b *bundle) config(t *testing.T) jetstream.StreamConfig {
	t.Helper()
	return b.stream(t).CachedInfo().Config
}

// edit changes settings of the stream, and returns what undoes it.
func (b *bundle) edit(t *testing.T, change func(*jetstream.StreamConfig)) (undo func()) {
	t.Helper()
	before := b.config(t)
	after := before
	change(&after)
	if _, err := b.js.UpdateStream(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := b.js.UpdateStream(t.Context(), before); err != nil {
			t.Error(err)
		}
	}
}

// untilAllStored waits until the stream holds so many events, and wants none of them twice.
func (b *bundle) untilAllStored(t *testing.T, p ticking, want int) {
	t.Helper()
	for began := time.Now(); ; p.wait(t, 1) {
		held := map[string]int{}
		for _, m := range b.stored(t) {
			held[m.Header.Get(message.HeaderSequence)]++
		}
		for sequence, times := range held {
			if times != 1 {
				t.Errorf("sequence %s is stored %d times", sequence, times)
			}
		}
		if len(held) == want {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the stream holds %d of %d events", len(held), want)
		}
	}
}

// Settings that come to a stream in use have nothing published again, are named, and delivery goes on once they are undone: what
// is seen to be lost then comes back once.
func TestNothingIsHealedOnAStreamThatDoesNotFit(t *testing.T) {
	t.Parallel()
	const before = 40
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		back   int // events that are there in the end, with the one that came meanwhile; 0: some
	}{
		"max_age":              {func(s *jetstream.StreamConfig) { s.MaxAge, s.Duplicates = 100*time.Millisecond, 100*time.Millisecond }, before + 1},
		"max_msgs":             {func(s *jetstream.StreamConfig) { s.Discard, s.MaxMsgs = jetstream.DiscardOld, 1 }, 0}, // one partition's record stays
		"max_bytes":            {func(s *jetstream.StreamConfig) { s.Discard, s.MaxBytes = jetstream.DiscardOld, 1 }, before + 1},
		"max_msgs_per_subject": {func(s *jetstream.StreamConfig) { s.MaxMsgsPerSubject = 1 }, 2}, // the records stay
		"interest":             {func(s *jetstream.StreamConfig) { s.Retention = jetstream.InterestPolicy }, before + 1},
		"no acknowledgements":  {func(s *jetstream.StreamConfig) { s.NoAck = true }, before + 1},
		"without records":      {func(s *jetstream.StreamConfig) { s.Subjects = []string{"events.>"} }, before + 1},
		"without events":       {func(s *jetstream.StreamConfig) { s.Subjects = []string{"outbox.fence.>"} }, before + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 4)
			b.acquireAll(t, b.keeper)
			relay, ticking, board := b.fitting(t)
			stop := b.start(t, relay)
			for i := range before {
				b.append(t, fmt.Sprintf("s-%d", i%8), `0`)
			}
			b.bell.Ring()
			b.untilAllStored(t, ticking, before)
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			undo := b.edit(t, c.change)
			for n := 0; n < 30 && !unfit(board); n++ {
				ticking.wait(t, 1)
			}
			b.append(t, "late", `0`)
			b.bell.Ring()
			for n := 0; n < 100 && relay.Stats().Published <= before+1 && (n < 20 || name == "max_age" && len(b.stored(t)) > 0); n++ {
				ticking.wait(t, 1)
			}
			if !unfit(board) {
				t.Errorf("the board says %v, want %s", board.First(), condition.StreamUnfit)
			}
			if n := relay.Stats().Published; n != before {
				t.Fatalf("%d were published while the stream did not fit", n-before)
			}
			undo()
			b.untilStored(t, "late", 1)
			if c.back > 0 {
				b.untilAllStored(t, ticking, c.back)
				ticking.wait(t, 20)
				b.untilAllStored(t, ticking, c.back)
			}
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			if first := board.First(); first != nil {
				t.Errorf("the board still says %v", first)
			}
			stop()
		})
	}
}

// A stream in use that takes no batches any more, and then again, gets all of it once and in order.
func TestAStreamMayStopTakingBatches(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.inBatches(t)
	b.acquireAll(t, b.keeper)
	relay, _, board := b.fitting(t)
	b.start(t, relay)
	deliver := func() {
		t.Helper()
		for i := range 40 {
			b.append(t, fmt.Sprintf("s-%d", i%8), `0`)
			b.bell.Ring()
		}
		b.until(t, `SELECT count(*) FROM outbox`, 0)
	}
	batched := func() (n int) {
		for _, m := range b.stored(t) {
			if m.Header.Get("Nats-Batch-Id") != "" {
				n++
			}
		}
		return n
	}
	deliver()
	undo := b.edit(t, func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = false })
	deliver()
	if n := batched(); n != 40 {
		t.Errorf("%d events came in batches, want the first 40", n)
	}
	undo()
	b.wait(t, "events come in batches again", func() bool { deliver(); return batched() > 40 })
	b.wantStrictOrder(t)
	if s := relay.Stats(); s.Losses != 0 || s.Failed != 0 || board.First() != nil {
		t.Errorf("stats %+v, the board says %v", s, board.First())
	}
}

// A stream in use that gets a max_age, with which records may stay, loses nothing by it: no event that was let go comes back, also where
// the stream is made anew and its records are lost.
func TestWhatExpiresIsNotHealed(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.acquireAll(t, b.keeper)
	relay, ticking, board := b.fitting(t)
	stop := b.start(t, relay)
	defer stop()
	// A message that was marked late looks younger than it is.
	old := `SELECT count(*) FROM outbox_deliveries WHERE published_at > clock_timestamp() - interval '300 ms'`
	for round := range 2 {
		for i := range 40 {
			b.append(t, fmt.Sprintf("s-%d", i%8), `0`)
		}
		b.bell.Ring()
		b.until(t, `SELECT count(*) FROM outbox`, 0)
		if round == 0 {
			b.until(t, old, 0)
			b.edit(t, func(s *jetstream.StreamConfig) {
				s.MaxAge, s.Duplicates, s.AllowMsgTTL = 300*time.Millisecond, 100*time.Millisecond, true
			})
		}
		b.untilAllStored(t, ticking, 0)
	}
	ticking.wait(t, 20)
	b.until(t, old, 0)
	if n := relay.Stats().Published; n != 80 {
		t.Errorf("%d were published again", n-80)
	}
	remake(t, b)
	for i := range 8 {
		b.append(t, fmt.Sprintf("s-%d", i), `0`)
	}
	b.bell.Ring()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.wait(t, "all are counted", func() bool { return relay.Stats().Published >= 88 }) // behind their commit
	if n := relay.Stats().Published; n != 88 {
		t.Errorf("%d were published again behind a stream that was made anew", n-88)
	}
	if first := board.First(); first != nil {
		t.Errorf("the board says %v", first)
	}
}
