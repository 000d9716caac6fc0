package loop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
)

// One row that cannot be read fails by itself; all others flow.
func TestAnUnreadableRowHarmsOnlyItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `CREATE TABLE own AS SELECT * FROM events`)
	var bad, fine int64
	for i := range 20 {
		sequence := b.append(t, fmt.Sprintf("s-%d", i), `1`)
		b.exec(t, `INSERT INTO own SELECT * FROM events WHERE sequence = $1`, sequence)
		bad, fine = fine, sequence
	}
	b.exec(t, `UPDATE own SET stream_version = NULL, metadata = '{"headers": {"n": 1}}' WHERE sequence = $1`, bad)
	var err error
	if b.store, err = pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "own"}); err != nil {
		t.Fatal(err)
	}
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	if s := r.Stats(); s.Published != 19 || s.Failed != 1 {
		t.Errorf("stats %+v, want 19 published and 1 failed", s)
	}
	if s := b.state(t, bad); s.State != "failed" {
		t.Errorf("the unreadable one: %+v", s)
	}
}

// Scheduled rows behind a dead one must not use up what a claim may take.
func TestScheduledRowsBehindADeadOneStarveNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, dead_at) VALUES ($1::bigint, 0, 'dead', true, now())`, int64(1001))
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, available_at)
		SELECT n, 0, 'dead', true, now() - interval '1 hour' FROM generate_series(1002, 1040) AS n`)
	b.exec(t, `SELECT setval(pg_get_serial_sequence('events', 'sequence'), 1040)`) // or they lie above the watermark
	healthy := b.append(t, "healthy", `1`, "available_at => clock_timestamp() + interval '1 hour'")
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() WHERE global_sequence = $1 AND stream_id = 'healthy'`, healthy)
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{BatchSize: 10, Window: 10}))
	b.until(t, `SELECT count(*) FROM outbox WHERE stream_id = 'healthy'`, 0)
}

// A park that is repeated, because its commit had no answer, counts once.
func TestARepeatedParkCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	sequence := b.append(t, "s", `1`)
	b.acquireAll(t, b.keeper)
	l := b.keeper.Set().Held()[0]
	result := delivery.Result{
		Batch: delivery.Batch{Lease: l, Messages: []delivery.Message{
			{Pointer: delivery.Pointer{Sequence: sequence, Stream: "s"}},
		}},
		Outcomes: []delivery.Outcome{{Kind: delivery.Retry, Err: errors.New("broken")}},
		Revision: b.takeRow(t, l),
	}
	for range 2 {
		fenced, err := b.store.Mark(t.Context(), []delivery.Result{result}, delivery.DefaultRetryPolicy(), func() float64 { return 0 })
		if err != nil || len(fenced) > 0 {
			t.Fatalf("fenced %v, %v", fenced, err)
		}
	}
	if s := b.state(t, sequence); s.Attempts != 1 {
		t.Errorf("%d attempts are counted, want 1", s.Attempts)
	}
	b.until(t, `SELECT sum(failed) FROM outbox_throughput`, 1)
}

// refusing takes nothing of one partition.
type refusing struct {
	delivery.Publisher
	id partition.ID
}

func (p refusing) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i, b := range look {
		if b.Lease.Partition == p.id {
			done(i, unresolved(b, delivery.ErrOutage))
			continue
		}
		p.Publisher.Publish(look[i:i+1], func(_ int, outcomes []delivery.Outcome) { done(i, outcomes) })
	}
}

// A partition of which nothing is taken waits alone; the others flow without pause.
func TestAPartitionThatIsRefusedPausesAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.acquireAll(t, b.keeper)
	r := b.relayOver(t, refusing{b.publisher(t), 0}, loop.Config{PollInterval: 5 * time.Millisecond})
	b.start(t, r)
	streams := b.streamOfEach(t, 4)
	b.append(t, streams[1], `1`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	stuck := b.append(t, streams[0], `1`)
	begin := time.Now()
	flowed := 0
	for i := 0; flowed < 60; i++ {
		sequence := b.append(t, fmt.Sprintf("s-%d", i), `1`)
		if b.partitionOf(t, sequence) == 0 {
			continue
		}
		flowed++
		b.until(t, fmt.Sprintf(`SELECT count(*) FROM outbox WHERE global_sequence = %d`, sequence), 0)
	}
	if s := r.Stats(); s.PausedFor > 0 || s.Failed > 0 {
		t.Errorf("the relay pauses: %+v", s)
	}
	t.Logf("60 events of other partitions flowed in %s", time.Since(begin))
	if s := b.state(t, stuck); s.State != "pending" || s.Attempts != 0 {
		t.Errorf("the refused one: %+v", s)
	}
}

func (b *bundle) partitionOf(t *testing.T, sequence int64) (id int) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT outbox_partition(stream_id, $2) FROM events WHERE sequence = $1`, sequence, b.count).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A drain waits for the messages that were sent, not for the whole batch.
func TestADrainLeavesTheUnsentToTheHeir(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.oneByOne(t)
	const events = 400
	for range events {
		b.append(t, "s", `1`)
	}
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{})
	consumer, err := b.js.OrderedConsumer(t.Context(), streams.DefaultStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	b.start(t, r)
	if _, err := consumer.Next(jetstream.FetchMaxWait(patience)); err != nil { // the batch is under way
		t.Fatal(err)
	}
	l := b.keeper.Set().Held()[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-l.Drain():
	case <-ctx.Done():
		t.Fatal("the drain did not end")
	}
	left := 0
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left == 0 || left == events {
		t.Errorf("%d of %d events are left to the heir; the batch should have been cut", left, events)
	}
	if published := len(b.stored(t)); published != events-left {
		t.Errorf("%d are stored and %d are left, of %d", published, left, events)
	}
}
