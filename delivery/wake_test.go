package delivery_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
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
