package loop_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
)

// keepBriefly is how long records stay in these tests.
const keepBriefly = 50 * time.Millisecond

// ticking is a publisher that tells whenever the relay asks for the stream's extent, as it does every 100 ms here.
type ticking struct {
	*natspub.Fenced
	ticks chan struct{}
}

func (p ticking) Extent(ctx context.Context) (delivery.Extent, error) {
	select {
	case p.ticks <- struct{}{}:
	default:
	}
	return p.Fenced.Extent(ctx)
}

// wait waits for some ticks.
func (p ticking) wait(t *testing.T, ticks int) {
	t.Helper()
	for range ticks {
		select {
		case <-p.ticks:
		case <-time.After(patience):
			t.Fatal("the relay stands still")
		}
	}
}

// trimming is a relay that trims, with what it says.
func (b *bundle) trimming(t *testing.T, log *slog.Logger) (*loop.Relay, ticking) {
	t.Helper()
	fenced := b.publisher(t)
	p := ticking{fenced, make(chan struct{})}
	if _, err := b.js.Publish(t.Context(), "events.other.first", nil); err != nil { // the record that begins a stream stays
		t.Fatal(err)
	}
	r, err := loop.NewRelay(loop.Config{KeepRecords: keepBriefly, ExtentInterval: 100 * time.Millisecond, Logger: log}, b.store, p, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	return r, p
}

// records are how many the stream holds, of the partition that has most.
func (b *bundle) records(ctx context.Context) (most uint64, err error) {
	held, err := natspub.NewRecords(b.nc, "", streams.DefaultStream, b.control).Held(ctx)
	for _, n := range held {
		most = max(most, n)
	}
	return most, err
}

// untilTrimmed waits until no partition has more than two.
func (b *bundle) untilTrimmed(t *testing.T) {
	t.Helper()
	pace := time.NewTicker(keepBriefly)
	defer pace.Stop()
	for began := time.Now(); ; <-pace.C {
		most, err := b.records(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case most <= 2:
			return
		case time.Since(began) > patience:
			t.Fatalf("there are %d records of one partition", most)
		}
	}
}

// Of many small batches, under owners that come and go, two records of a partition are left at most; the next owner knows what it has to.
func TestAtMostTwoRecordsAreLeftOfALongRun(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	var want []string
	for range 3 {
		b.keeper = b.newKeeper(t)
		b.acquireAll(t, b.keeper)
		relay, _ := b.trimming(t, testLogger(t))
		stop := b.start(t, relay)
		for range 40 {
			want = append(want, texts(b.append(t, "s", `0`))...)
			b.bell.Ring()
			b.untilStored(t, "s", len(want))
		}
		b.untilTrimmed(t)
		stop()
		if _, err := b.keeper.Release(t.Context(), b.keeper.Set().Held()); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, `SELECT least(count(*), 100) FROM outbox_deliveries`, 100) // so many batches there were
	b.wantHeirOnce(t, want)
}

// What is not marked yet only records tell an heir: they stay, however long the marks take.
func TestRecordsOfBatchesThatAreNotMarkedStay(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	relay, ticking := b.trimming(t, testLogger(t))
	sequences, stop, release := b.lateBatches(t, relay)
	ticking.wait(t, 25)
	release(`UPDATE outbox_partitions SET lease_owner = $1, lease_epoch = lease_epoch + 1, lease_until = clock_timestamp() - interval '1 s'`, uuid.New())
	stop()
	b.until(t, `SELECT count(*) FROM outbox`, 15)
	b.wantHeirOnce(t, sequences)
}

// Where nobody may remove records, the log says it once, and delivery goes on.
func TestADeniedTrimIsSaidOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.edit(t, func(s *jetstream.StreamConfig) { s.DenyPurge = true })
	b.acquireAll(t, b.keeper)
	const text = "the records of former batches stay in the stream: let workers purge it, or run `postrider partitions trim` now and then"
	said := &lines{}
	relay, ticking := b.trimming(t, slog.New(slog.NewJSONHandler(said, nil)))
	stop := b.start(t, relay)
	var want []string
	for range 2 {
		want = append(want, texts(b.append(t, "s", `0`))...)
		b.bell.Ring()
		b.untilStored(t, "s", len(want))
		for n := 0; n < 300 && len(said.of(t, text)) == 0; n++ {
			ticking.wait(t, 1)
		}
		ticking.wait(t, 5)
	}
	stop()
	if n := len(said.of(t, text)); n != 1 {
		t.Errorf("it is said %d times, want once", n)
	}
	if most, err := b.records(t.Context()); err != nil || most < 3 {
		t.Errorf("%d records are there, %v", most, err)
	}
	b.wantOnce(t, want)
}
