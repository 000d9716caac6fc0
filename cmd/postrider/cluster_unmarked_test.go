package main

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
)

// A standby that has all events and lacks their marks, and what was parked, is promoted under load. What the stream holds is not
// published again, whatever number of batches it was in, nothing is lost, and partitions stay in order.
func TestAFailoverThatLacksMarksStoresNothingTwice(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	f := newFailovers(t, "--batch-size=5")
	standby, pool := f.standby(t)
	const resume = `UPDATE outbox_partitions SET paused_at = NULL`
	f.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`)
	insert(t, f.primary.URL(), "unmarked", 300)
	f.exec(t, `SELECT outbox_append_bytes('unmarked-3', 'large', decode(repeat('61', 2000000), 'hex'))`) // the broker takes 1 MiB
	insert(t, f.primary.URL(), "unmarked", 300)
	f.cut(t, pool)
	f.exec(t, resume)
	f.nothingReady(t)
	var records, known int
	const marks = `SELECT count(*) FROM outbox_deliveries`
	if err := f.pool.QueryRow(t.Context(), marks).Scan(&records); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), marks).Scan(&known); err != nil {
		t.Fatal(err)
	}
	if known > 0 || records < 50 {
		t.Fatalf("of %d batches the standby knows %d: the test shows nothing", records, known)
	}
	f.over(t, standby, pool)
	f.exec(t, resume)
	f.nothingReady(t)
	f.wantTold(t)
	f.wantEachOnce(t, 1+30)
}

// nothingReady waits until only what is dead is left, and what waits for it.
func (f *failovers) nothingReady(t *testing.T) {
	t.Helper()
	clustertest.Until(t, "all is delivered but what is parked", func(ctx context.Context) (bool, error) {
		var left, dead int
		err := f.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE NOT parked), count(*) FILTER (WHERE dead_at IS NOT NULL) FROM outbox`).Scan(&left, &dead)
		return left == 0 && dead == 1, err
	}, nil)
}

// wantEachOnce wants every event of the database in the stream once, but for so many that are parked, and partitions in order.
func (f *failovers) wantEachOnce(t *testing.T, parked int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	consumer, err := f.cluster.NATS.JetStream(t).OrderedConsumer(ctx, natstest.StreamName, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ids, last := map[string]bool{}, map[string]uint64{}
	for range info.NumPending {
		m, err := consumer.Next()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := message.FromJetStream(m)
		if err != nil {
			t.Fatal(err)
		}
		id, partition := m.Headers().Get(message.HeaderEventID), m.Headers().Get(message.HeaderPartition)
		if ids[id] {
			t.Errorf("event %d is stored twice", parsed.Sequence)
		}
		if sequence := uint64(parsed.Sequence); sequence <= last[partition] {
			t.Errorf("in partition %s event %d lies behind %d", partition, sequence, last[partition])
		}
		ids[id], last[partition] = true, uint64(parsed.Sequence)
	}
	var events, waiting int
	if err := f.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM outbox)`).Scan(&events, &waiting); err != nil {
		t.Fatal(err)
	}
	if len(ids) != events-waiting || waiting != parked {
		t.Errorf("the stream holds %d of %d events, and %d wait, want %d", len(ids), events, waiting, parked)
	}
}
