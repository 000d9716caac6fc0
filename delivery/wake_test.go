package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// With a poll that never comes in the test's time, only the doorbell can wake.
func TestTheDoorbellWakes(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, delivery.Config{PollInterval: time.Minute})
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

// A ring that names partitions has these looked at, and no others.
func TestARingHasWhatItNamesLookedAt(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, delivery.Config{PollInterval: time.Minute, ExtentInterval: time.Hour}))
	b.append(t, "s", `0`)
	b.bell.Ring() // everything was looked at, and is not due for a minute
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	of := func(sequence int64) (id partition.ID) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `SELECT partition_key FROM outbox WHERE global_sequence = $1`, sequence).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := b.append(t, "s", `1`)
	id, other := of(first), int64(0)
	for n := 0; other == 0; n++ {
		if sequence := b.append(t, fmt.Sprint("t", n), `2`); of(sequence) != id {
			other = sequence
		}
	}
	if err := b.nc.Publish("outbox.bell.test", outbox.BellBody(outbox.Appended{Partition: id, Enqueued: true})); err != nil {
		t.Fatal(err)
	}
	b.until(t, fmt.Sprintf(`SELECT count(*) FROM outbox WHERE partition_key = %d`, id), 0)
	b.until(t, fmt.Sprintf(`SELECT count(*) FROM outbox WHERE global_sequence = %d`, other), 1)
	b.bell.Ring()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// A ring for the wrong partition, as of a producer that knows the number before a resize, costs one poll.
func TestARingForAnotherPartitionIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, delivery.Config{PollInterval: 50 * time.Millisecond}))
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

// What is committed and rung for while a batch of the partition is on its way is looked for behind it.
func TestARingWhileABatchIsUnderWayIsNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	g := gate{Publisher: b.fencedPublisher(t), published: make(chan struct{}, 2), goOn: make(chan struct{})}
	r, err := delivery.NewRelay(delivery.Config{PollInterval: time.Minute, ExtentInterval: time.Hour, Logger: testLogger(t)}, b.store, g, b.bell)
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
	b.append(t, "s", `1`)
	ring(nil)
	<-g.published
	b.append(t, "s", `2`)
	named := outbox.BellBody(outbox.Appended{Partition: 0, Enqueued: true})
	heard, err := natspub.NewBell(b.nc, "outbox.bell.test")
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	ring(named)
	<-heard.Rung() // and by the relay before, which listens longer on the same connection
	close(g.goOn)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// Without any ring the poll finds the row.
func TestPollingIsTheSafetyNet(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, delivery.Config{PollInterval: 5 * time.Millisecond}))
	b.append(t, "s", `1`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// What only a person can change stops the relay, and the error names it.
func TestAConfigurationErrorStopsTheRelay(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`)
	b.acquireAll(t, b.keeper)
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ELSEWHERE", Subjects: []string{"elsewhere"}}); err != nil {
		t.Fatal(err)
	}
	publisher, err := natspub.NewDedupe(b.nc, natspub.DedupeConfig{Stream: "ELSEWHERE"})
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	r, err := delivery.NewRelay(delivery.Config{Logger: testLogger(t)}, b.store, publisher, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Run(ctx, b.keeper.Set()); !errors.Is(err, delivery.ErrConfiguration) {
		t.Errorf("the relay ended with %v, want %v", err, delivery.ErrConfiguration)
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
	stale, fresh := b.relay(t, delivery.Config{BatchSize: 20}), b.relay(t, delivery.Config{BatchSize: 20})
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
