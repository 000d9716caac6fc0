package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// With a poll that never comes in the test's time, only the doorbell can wake.
func TestTheDoorbellWakes(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{PollInterval: time.Minute})
	b.start(t, r)
	var want []string
	for range 20 {
		want = append(want, texts(b.append(t, "s", `1`))...)
		b.bell.Ring()
		b.until(t, `SELECT count(*) FROM outbox`, 0)
	}
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// asking notes how many partitions the last look asked for that found anything.
type asking struct{ last atomic.Int64 }

func (a *asking) Claimed(_ time.Time, partitions, found int, _ error) {
	if found > 0 {
		a.last.Store(int64(partitions))
	}
}
func (*asking) Published(time.Time, delivery.Batch, []delivery.Outcome) {}
func (*asking) Marked(time.Time, []delivery.Result, error)              {}
func (*asking) Taken(time.Time, *lease.Lease, error)                    {}

// A ring that names a partition has that one looked at alone, and one that names none has all.
func TestARingHasWhatItNamesLookedAt(t *testing.T) {
	t.Parallel()
	const partitions, tries = 8, 20
	b := setup(t, partitions)
	b.acquireAll(t, b.keeper)
	asked := &asking{}
	b.start(t, b.relay(t, loop.Config{PollInterval: time.Minute, ExtentInterval: time.Hour, Observer: asked}))
	named := outbox.BellBody(outbox.Appended{Partition: partition.Of("s", partitions), Enqueued: true})
	// Not at once: partitions may not be taken yet, or a look may come for another reason.
	for _, c := range []struct {
		ring []byte
		want int64
	}{{nil, partitions}, {named, 1}} {
		for try := 0; try == 0 || asked.last.Load() != c.want; try++ {
			if try == tries {
				t.Fatalf("after a ring %x a look asked for %d partitions, want %d", c.ring, asked.last.Load(), c.want)
			}
			b.append(t, "s", `1`)
			if err := b.nc.Publish("outbox.bell.test", c.ring); err != nil {
				t.Fatal(err)
			}
			b.until(t, `SELECT count(*) FROM outbox`, 0)
		}
	}
}

// A ring for the wrong partition, as of a producer that knows the number before a resize, costs one poll.
func TestARingForAnotherPartitionIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{PollInterval: 50 * time.Millisecond}))
	ringing := make(chan struct{})
	var ringer sync.WaitGroup
	ringer.Go(func() { // so often that no poll is ever due by itself
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ringing:
				return
			case <-tick.C:
				_ = b.nc.Publish("outbox.bell.test", outbox.BellBody(outbox.Appended{Partition: 1, Enqueued: true}))
			}
		}
	})
	defer ringer.Wait()
	defer close(ringing)
	for n := range 20 {
		b.append(t, fmt.Sprint("s", n), `1`)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// listened is a doorbell that tells when the relay has heard partitions named.
type listened struct {
	*wire.Bell
	heard chan struct{}
}

func (l listened) Heard() (named []partition.ID, every bool) {
	if named, every = l.Bell.Heard(); len(named) > 0 {
		l.heard <- struct{}{}
	}
	return named, every
}

// What is committed and rung for while a batch of the partition is on its way is looked for behind it.
func TestARingWhileABatchIsUnderWayIsNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	g := gate{Publisher: b.publisher(t), published: make(chan struct{}, 2), goOn: make(chan struct{})}
	bell := listened{b.bell, make(chan struct{}, 1)}
	r, err := loop.NewRelay(loop.Config{PollInterval: time.Minute, ExtentInterval: time.Hour, Logger: testLogger(t)}, b.store, g, bell)
	if err != nil {
		t.Fatal(err)
	}
	b.start(t, r)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	ring := func(body []byte) {
		t.Helper()
		if err := b.nc.Publish("outbox.bell.test", body); err != nil {
			t.Fatal(err)
		}
	}
	ours := outbox.BellBody(outbox.Appended{Partition: 0, Enqueued: true})
	b.append(t, "s", `1`)
	ring(ours) // a ring for all would be another precaution, where the first look finds the event before it
	<-bell.heard
	<-g.published
	b.append(t, "s", `2`)
	for _, id := range []partition.ID{0, 9} { // when it hears the second one, it is through with the first
		ring(outbox.BellBody(outbox.Appended{Partition: id, Enqueued: true}))
		<-bell.heard
	}
	close(g.goOn)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// Without any ring the poll finds the row.
func TestPollingIsTheSafetyNet(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond}))
	b.append(t, "s", `1`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// misconfigured takes nothing, for what only a person can change. Its stream is looked at in vain so many times.
type misconfigured struct {
	delivery.Publisher
	unseen *atomic.Int64
}

func (p misconfigured) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i, b := range look {
		done(i, unresolved(b, delivery.ErrConfiguration))
	}
}

func (p misconfigured) Extent(ctx context.Context) (delivery.Extent, error) {
	if p.unseen.Add(-1) >= 0 {
		return delivery.Extent{}, delivery.ErrOutage
	}
	return p.Publisher.Extent(ctx)
}

// What only a person can change, and no setting of the stream is, stops the relay, and the error names it. It waits while the stream
// cannot be looked at.
func TestAConfigurationErrorStopsTheRelay(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`)
	b.acquireAll(t, b.keeper)
	var unseen atomic.Int64
	unseen.Store(5)
	r := b.relayOver(t, misconfigured{b.publisher(t), &unseen}, loop.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Run(ctx, b.keeper.Set()); !errors.Is(err, delivery.ErrConfiguration) {
		t.Errorf("the relay ended with %v, want %v", err, delivery.ErrConfiguration)
	}
	if n := unseen.Load(); n >= 0 {
		t.Errorf("the relay ended although nobody had seen the stream: %d looks were to fail", n)
	}
	b.until(t, `SELECT count(*) FROM outbox WHERE attempts = 0 AND NOT parked`, 1)
}

// Two workers that both believe to own a partition keep every stream's order in
// the stream and store nothing twice.
func TestTwoOwnersAtOnceStoreNothingTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var want []string
	for range 200 {
		want = append(want, texts(b.append(t, "s", `1`))...)
	}
	old := b.keeper
	b.acquireAll(t, old)
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	heir := b.newKeeper(t)
	b.acquireAll(t, heir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var both sync.WaitGroup
	stale, fresh := b.relay(t, loop.Config{BatchSize: 20}), b.relay(t, loop.Config{BatchSize: 20})
	both.Go(func() { _ = stale.RunOnce(ctx, old.Set()) })
	both.Go(func() { _ = fresh.RunOnce(ctx, heir.Set()) })
	both.Wait()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
		t.Errorf("stored %d events, want %d in order", len(got), len(want))
	}
	if s := stale.Stats(); s.Published != 0 {
		t.Errorf("the stale owner marked %d rows", s.Published)
	}
}
