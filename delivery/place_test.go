package delivery_test

import (
	"math"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease/leasetest"
)

// A mark looks for rows where the claim saw them. Meanwhile rows may have moved, and others may lie there.
func TestAMarkFindsRowsThatMovedAndNoOthers(t *testing.T) {
	t.Parallel()
	for name, stranger := range map[string]int{"of the partition": 0, "of another": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			markMoved(t, stranger)
		})
	}
}

// markMoved marks after rows have moved, and a row of the stranger's partition has come where one was.
func markMoved(t *testing.T, stranger int) {
	t.Helper()
	b := setup(t, 2)
	b.exec(t, `ALTER TABLE outbox_ready SET (autovacuum_enabled = false)`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) SELECT n, 0, 's-' || n FROM generate_series(1, 6) AS n`)
	b.acquireAll(t, b.keeper)
	l := b.keeper.Set().Held()[0]
	if l.Partition != 0 {
		l = b.keeper.Set().Held()[1]
	}
	found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, After: math.MinInt64, Most: 10}},
		delivery.Limits{Total: 10, UpTo: math.MaxInt64}, delivery.BehindStream)
	if err != nil || len(found.Batches) != 1 || len(found.Batches[0].Messages) != 6 {
		t.Fatalf("claimed %+v, %v", found.Batches, err)
	}
	found.Close()
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = 4`)
	b.exec(t, `VACUUM outbox_ready`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES (100, $1, 's-100')`, stranger) // where 4 was
	b.exec(t, `UPDATE outbox SET available_at = available_at WHERE global_sequence = 2`)
	b.exec(t, `UPDATE outbox SET generation = 1 WHERE global_sequence = 3`)
	b.until(t, `SELECT count(*) FROM outbox_ready WHERE global_sequence = 100 AND ctid = '(0,4)'`, 1)

	result := delivery.Result{Batch: found.Batches[0]}
	for i := range 6 {
		result.Outcomes = append(result.Outcomes, delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(i + 1)}) // small
	}
	stale := result // the lease is another's: nothing is looked for again
	stale.Batch.Lease = leasetest.Held(0, l.Epoch)
	if fenced, _, err := b.store.Mark(t.Context(), []delivery.Result{stale}, delivery.DefaultRetryPolicy(), nil); err != nil || len(fenced) != 1 {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
	for range 2 { // the second time nothing is left to find
		if fenced, _, err := b.store.Mark(t.Context(), []delivery.Result{result}, delivery.DefaultRetryPolicy(), nil); err != nil || len(fenced) != 0 {
			t.Fatalf("fenced %v, %v", fenced, err)
		}
		b.until(t, `SELECT count(*) FROM outbox`, 2)
		b.until(t, `SELECT count(*) FROM outbox WHERE global_sequence = 100 OR global_sequence = 3 AND generation = 1`, 2)
		b.until(t, `SELECT sum(message_count) FROM outbox_deliveries`, 4)
		b.until(t, `SELECT sum(published) FROM outbox_throughput`, 4)
		b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published' AND stream_sequence = global_sequence`, 4)
	}
}
