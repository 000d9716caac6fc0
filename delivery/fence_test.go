package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/partition"
)

// gate is a publisher that lets a test act between publishing and marking.
type gate struct {
	delivery.Publisher
	published chan struct{} // receives after a batch was published
	goOn      chan struct{} // closed: the batch may be marked
}

func (g gate) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	g.Publisher.Publish(look, func(i int, outcomes []delivery.Outcome) {
		g.published <- struct{}{}
		<-g.goOn
		done(i, outcomes)
	})
}

// A worker that lost its lease between publishing and marking changes nothing:
// neither rows nor history nor progress nor counts nor parked rows.
func TestAStaleOwnersMarksAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`)
	missing := b.append(t, "missing", `2`)
	b.exec(t, `DELETE FROM events WHERE sequence = $1`, missing)
	b.acquireAll(t, b.keeper)
	publisher, err := natspub.NewDedupe(b.nc, natspub.DedupeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	g := gate{publisher, make(chan struct{}), make(chan struct{})}
	r, err := delivery.NewRelay(delivery.Config{Ordering: delivery.OrderStream, Logger: testLogger(t)}, b.store, g, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx, b.keeper.Set()) })
	<-g.published
	stale := b.keeper.Set().Held()[0]
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	heir := b.newKeeper(t)
	b.acquireAll(t, heir)
	close(g.goOn)
	select {
	case <-stale.Context().Done():
	case <-time.After(patience):
		t.Fatal("the stale lease was not ended")
	}
	cancel()
	running.Wait()
	if s := r.Stats(); s.Fenced != 2 || s.Published != 0 {
		t.Errorf("stats %+v, want 2 fenced", s)
	}
	for what, sql := range map[string]string{
		"rows":       `SELECT (count(*) = 2)::int - 1 FROM outbox WHERE NOT parked AND attempts = 0`,
		"deliveries": `SELECT count(*) FROM outbox_deliveries`,
		"counts":     `SELECT count(*) FROM outbox_throughput`,
		"progress":   `SELECT delivered FROM outbox_partitions`,
	} {
		t.Log(what)
		b.until(t, sql, 0)
	}
	// The heir publishes again under the same id: the stream holds it once.
	b.keeper = heir
	b.drain(t, b.relay(t, delivery.Config{}))
	if n := len(sequencesOf(b.stored(t), "s")); n != 1 {
		t.Errorf("the stream holds the event %d times", n)
	}
}

// Every write under a stale epoch is refused, whatever it would do.
func TestMarkComparesOwnerAndEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	for i := range 3 {
		b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked) VALUES ($1::bigint, $1::bigint % 3, 's', false)`, int64(i))
	}
	b.acquireAll(t, b.keeper)
	stale := b.keeper.Set().Held()
	b.exec(t, `UPDATE outbox_partitions SET lease_epoch = lease_epoch + 1 WHERE partition_key = $1`, int64(1))
	var results []delivery.Result
	for i, l := range stale {
		kind := delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(i + 1)}
		if l.Partition == 2 {
			kind = delivery.Outcome{Kind: delivery.Retry, Err: fmt.Errorf("broken")}
		}
		results = append(results, delivery.Result{
			Batch:    delivery.Batch{Lease: l, Messages: []delivery.Message{{Pointer: delivery.Pointer{Partition: l.Partition, Sequence: int64(i), Stream: "s"}}}},
			Outcomes: []delivery.Outcome{kind},
		})
	}
	fenced, _, err := b.store.Mark(t.Context(), results, delivery.DefaultRetryPolicy(), func() float64 { return 0 })
	if err != nil || !slices.Equal(fenced, []partition.ID{1}) {
		t.Fatalf("fenced %v, %v; want partition 1", fenced, err)
	}
	b.until(t, `SELECT count(*) FROM outbox WHERE partition_key = 0`, 0)
	b.until(t, `SELECT count(*) FROM outbox WHERE partition_key = 1 AND NOT parked`, 1)
	b.until(t, `SELECT attempts FROM outbox WHERE partition_key = 2 AND parked`, 1)
	// Marking again changes nothing: the history is made of rows really deleted.
	if _, _, err := b.store.Mark(t.Context(), results[:1], delivery.DefaultRetryPolicy(), func() float64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT sum(message_count) FROM outbox_deliveries`, 1)
	b.until(t, `SELECT sum(published) FROM outbox_throughput`, 1)
}

// A sequence that commits after higher ones were delivered is not skipped.
func TestALateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	late := appendIn(t, tx, "late")
	early := b.append(t, "early", `1`)
	if late >= early {
		t.Fatalf("the late one has sequence %d, not below %d", late, early)
	}
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, delivery.Config{Ordering: delivery.OrderStream, SweepInterval: time.Hour}))
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 2)
	if got := len(b.stored(t)); got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

func appendIn(t *testing.T, tx pgx.Tx, stream string) (sequence int64) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), `SELECT outbox_append($1, 'thing.done', '1')`, stream).Scan(&sequence); err != nil {
		t.Fatal(err)
	}
	return sequence
}
