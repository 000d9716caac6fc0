package loop_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// A stream that is lost after resizes gets back all of what it held, once, and each
// stream of events in its order: whatever partition published it, and wherever its
// stream is now.
func TestWhatWasPublishedBeforeAResizeIsHealed(t *testing.T) {
	t.Parallel()
	const streams = 24
	for name, c := range map[string]struct {
		counts   []int // of partitions, one after the other
		quiet    bool  // nothing is published after the first resize
		back     bool  // the clock steps back after each round
		oneByOne bool
	}{
		"shrunk and grown":               {counts: []int{16, 4, 16}},
		"shrunk":                         {counts: []int{16, 4}},
		"grown":                          {counts: []int{2, 9}},
		"shrunk, nothing more":           {counts: []int{8, 3}, quiet: true},
		"one by one":                     {counts: []int{16, 4, 16}, oneByOne: true},
		"with a clock that steps back":   {counts: []int{16, 4, 16}, back: true},
		"grown, a clock that steps back": {counts: []int{2, 9}, back: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, c.counts[0])
			if c.oneByOne {
				b.oneByOne(t)
			}
			var want [streams][]string
			for round, count := range c.counts {
				if round > 0 {
					b.resize(t, count)
				}
				for i := range 2 * streams {
					if c.quiet && round > 0 {
						break
					}
					want[i%streams] = append(want[i%streams], texts(b.append(t, fmt.Sprintf("s-%d", i%streams), strconv.Itoa(round)))...)
				}
				b.succeed(t)
				b.drain(t, b.relay(t, loop.Config{}))
				b.until(t, `SELECT count(*) FROM outbox`, 0)
				if c.back {
					b.exec(t, `UPDATE outbox_deliveries SET published_at = published_at + interval '1 hour'`)
					b.exec(t, `UPDATE outbox_settings SET resized_at = resized_at + interval '1 hour'`)
				}
			}
			all := 0
			for _, sequences := range want {
				all += len(sequences)
			}
			b.lacks(t, "before", 0)
			remake(t, b)
			b.lacks(t, "between", all)
			for range 2 { // healed means healed
				b.succeed(t)
				b.drain(t, b.relay(t, loop.Config{}))
				b.until(t, `SELECT count(*) FROM outbox`, 0)
			}
			b.lacks(t, "after", 0)
			messages := b.stored(t)
			for i, sequences := range want {
				if got := sequencesOf(messages, fmt.Sprintf("s-%d", i)); !slices.Equal(got, sequences) {
					t.Errorf("stream %d is stored as %v, want %v", i, got, sequences)
				}
			}
			for _, m := range messages {
				if id := m.Header.Get(message.HeaderPartition); id != "" && id != fmt.Sprint(b.number(t, `SELECT outbox_partition('`+m.Header.Get(message.HeaderStream)+`', (SELECT partition_count FROM outbox_settings))`)) {
					t.Errorf("%s came back in partition %s", m.Header.Get(message.HeaderStream), id)
				}
			}
		})
	}
}

// lacks wants gaps to say that the stream lacks so many events, and nothing else.
func (b *bundle) lacks(t *testing.T, when string, want int) {
	t.Helper()
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := streams.NewStreamReader(b.nc, "", streams.DefaultStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	store, err := gaps.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Detect(t.Context(), gaps.Options{}, stream)
	if err != nil || int(r.Counts[gaps.NotInStream]) != want || int(r.Total()) != want {
		t.Errorf("%s: gaps %v, want %d not in the stream: %v", when, r, want, err)
	}
}

// A partition that was removed and came back notices what the stream lost of it, also
// where it has published nothing since.
func TestAPartitionThatComesBackKnowsItsLoss(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	for i := range 16 {
		b.append(t, fmt.Sprintf("s-%d", i), `1`)
	}
	b.deliver(t)
	b.resize(t, 2)
	b.resize(t, 4)
	remake(t, b)
	b.succeed(t)
	for _, l := range b.keeper.Set().Held() {
		r := b.relay(t, loop.Config{Lost: delivery.LostReport})
		if err := r.Take(t.Context(), []*lease.Lease{l}); err != nil {
			t.Fatal(err)
		}
		if r.Stats().Losses == 0 {
			t.Errorf("partition %d: the loss went unnoticed", l.Partition)
		}
	}
}

// A row that somebody deleted, and sync put back, goes on where the history ends: what the
// stream loses is noticed, before anything more was published.
func TestARowThatWasPutBackKnowsTheLoss(t *testing.T) {
	t.Parallel()
	eachStoring(t, 4, func(t *testing.T, b *bundle) {
		t.Helper()
		for i := range 24 {
			b.append(t, fmt.Sprintf("s-%d", i%12), `1`)
		}
		b.succeed(t)
		b.drain(t, b.relay(t, loop.Config{}))
		b.until(t, `SELECT count(*) FROM outbox`, 0)
		for range 2 { // what was lost before, and came back, is no other loss
			b.exec(t, `DELETE FROM outbox_partitions WHERE partition_key > 0`)
			if added, _, err := b.leases.Sync(t.Context(), 4, false, false); err != nil || added != 3 {
				t.Fatalf("%d rows came back: %v", added, err)
			}
			remake(t, b)
			b.lacks(t, "between", 24)
			b.succeed(t)
			r := b.relay(t, loop.Config{})
			b.drain(t, r)
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			b.lacks(t, "after", 0)
			if losses := r.Stats().Losses; losses != 4 {
				t.Errorf("%d partitions noticed their loss", losses)
			}
			b.exec(t, `DELETE FROM outbox_partitions WHERE partition_key > 0`)
			if _, _, err := b.leases.Sync(t.Context(), 4, false, false); err != nil {
				t.Fatal(err)
			}
			b.succeed(t)
			r = b.relay(t, loop.Config{})
			b.drain(t, r)
			if losses := r.Stats().Losses; losses != 0 {
				t.Errorf("%d partitions tell of a loss that there is not", losses)
			}
		}
	})
}

// What the stream lost of a partition that is no more is noticed and healed where no
// other has published anything.
func TestTheLossOfAFormerPartitionIsNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	published := 0
	for i := 0; published < 5; i++ {
		if stream := fmt.Sprintf("s-%d", i); partition.Of(stream, 4) == 3 {
			b.append(t, stream, `1`)
			published++
		}
	}
	b.deliver(t)
	b.resize(t, 2)
	remake(t, b)
	b.deliver(t)
	b.lacks(t, "healed", 0)
}

// What a replay queues while the healing of a lost stream waits for it is not queued again.
func TestWhatAReplayQueuedMeanwhileIsNotHealed(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	sequence := b.append(t, "s", `1`)
	b.drain(t, b.relay(t, loop.Config{}))
	replay := b.holdMarks(t, 0)
	healed := make(chan delivery.Healed, 1)
	go func() {
		h, _, _, err := b.store.Heal(t.Context(), b.keeper.Set().Held()[0], delivery.Loss{}, delivery.EveryBatch)
		if err != nil {
			t.Error(err)
		}
		healed <- h
	}()
	b.until(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, 1)
	replay(`INSERT INTO outbox (global_sequence, partition_key, generation, parked, stream_id) VALUES ($1, 0, 100, true, 's')`, sequence)
	if h := <-healed; h != (delivery.Healed{Lost: 1}) {
		t.Errorf("healed %+v, want one lost and none queued", h)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 1)
}

// A long history is healed page by page. The loss stays one until the last page, so that the next owner goes on where this one
// ended; and what was published again before the loss comes back as that, whichever page holds it.
func TestALongHistoryIsHealedInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	var want []string
	for range 250 {
		want = append(want, texts(b.append(t, "s", `1`))...)
	}
	r := b.relay(t, loop.Config{BatchSize: 1})
	b.drain(t, r)
	replayed := []string{want[0], want[len(want)-1]}
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, generation, parked, stream_id)
		SELECT sequence, 0, 7, true, 's' FROM events WHERE sequence::text = ANY ($1)`, replayed)
	b.drain(t, b.relay(t, loop.Config{}))
	if batches := b.number(t, `SELECT count(*) FROM outbox_deliveries`); batches != 251 {
		t.Fatalf("the history has %d batches, want 251", batches)
	}
	remake(t, b)
	// Of the 100 batches with the highest sequences, one holds what was published once more.
	h, next, done, err := b.store.Heal(t.Context(), b.keeper.Set().Held()[0], delivery.Loss{}, delivery.EveryBatch)
	if err != nil || done || h != (delivery.Healed{Lost: 99, Queued: 99}) || next == delivery.EveryBatch {
		t.Fatalf("the first page healed %+v down to %v, done %t: %v", h, next, done, err)
	}
	b.succeed(t) // the owner ends
	heir := b.relay(t, loop.Config{})
	b.drain(t, heir)
	if heir.Stats().Losses == 0 {
		t.Error("the heir saw no loss")
	}
	b.wantFewReads(t, 0, 3_000, "outbox_deliveries") // each page those of its own batches
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	b.lacks(t, "healed", 0)
	messages := b.stored(t)
	if got := sequencesOf(messages, "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	for i, m := range messages {
		if generation := m.Header.Get(message.HeaderGeneration); (generation == "7") != slices.Contains(replayed, m.Header.Get(message.HeaderSequence)) {
			t.Errorf("message %d has the generation %q", i, generation)
		}
	}
}

// A loss that is only reported is reported to every owner, and healed by the first that may. Meanwhile marks count in the stream as it
// is: behind a crash that took some back nothing is published twice.
func TestALossThatIsOnlyReportedHidesNoMark(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	deliver := func(n int, lost delivery.Lost) (sequences []string) {
		r := b.relay(t, loop.Config{Lost: lost})
		for i := range n {
			sequences = append(sequences, texts(b.append(t, "s", fmt.Sprint(i)))...)
			b.drain(t, r)
		}
		b.until(t, `SELECT count(*) FROM outbox`, 0)
		return sequences
	}
	b.acquireAll(t, b.keeper)
	old := deliver(8, delivery.LostReport)
	remake(t, b)
	for range 2 {
		b.succeed(t)
		r := b.relay(t, loop.Config{Lost: delivery.LostReport})
		b.drain(t, r)
		if s := r.Stats(); s.Losses != 1 || s.Published != 0 {
			t.Errorf("an owner that only reports sees %+v", s)
		}
	}
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{}))
	b.wantOnce(t, old)

	remake(t, b)
	b.succeed(t)
	want := deliver(1, delivery.LostReport)
	b.exec(t, `CREATE TABLE kept AS SELECT * FROM outbox_partitions`)
	want = append(want, deliver(24, delivery.LostReport)...)
	b.forgetMarks(t)
	b.succeed(t)
	b.drain(t, b.relay(t, loop.Config{Lost: delivery.LostReport}))
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}
