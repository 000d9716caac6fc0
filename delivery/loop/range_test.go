package loop_test

import (
	"math"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease/leasetest"
)

// A mark takes what lies between the first and the last row of its batch. Meanwhile rows may have gone or changed, and others
// may have come: with ordering: stream between them.
func TestAMarkOfARangeTakesItsOwnRowsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) SELECT n * 10, 0, 's-' || n FROM generate_series(1, 6) AS n`)
	b.acquireAll(t, b.keeper)
	l := b.keeper.Set().Held()[0]
	if l.Partition != 0 {
		l = b.keeper.Set().Held()[1]
	}
	revision := b.takeRow(t, l)
	found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, Revision: revision, After: math.MinInt64, Most: 10}},
		delivery.Limits{Total: 10, UpTo: math.MaxInt64}, delivery.BehindStream)
	if err != nil || len(found.Batches) != 1 || len(found.Batches[0].Messages) != 6 {
		t.Fatalf("claimed %+v, %v", found.Batches, err)
	}
	b.exec(t, `UPDATE outbox SET available_at = available_at WHERE global_sequence = 20`)
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = 40`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES (35, 0, 's-35'), (45, 0, 's-45'), (46, 1, 's-46')`)
	b.exec(t, `UPDATE outbox SET generation = 1 WHERE global_sequence = 30`)

	result := delivery.Result{Batch: found.Batches[0], Revision: revision}
	for i := range 6 {
		result.Outcomes = append(result.Outcomes, delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(i+1) * 10}) // small
	}
	stale := result // the lease is another's: nothing is looked for again
	stale.Batch.Lease = leasetest.Held(0, l.Epoch)
	if fenced, err := b.store.Mark(t.Context(), []delivery.Result{stale}, delivery.DefaultRetryPolicy(), nil); err != nil || len(fenced) != 1 {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
	for range 2 { // the second time nothing is left to take
		if fenced, err := b.store.Mark(t.Context(), []delivery.Result{result}, delivery.DefaultRetryPolicy(), nil); err != nil || len(fenced) != 0 {
			t.Fatalf("fenced %v, %v", fenced, err)
		}
		for sql, want := range map[string]int{
			`SELECT count(*) FROM outbox`: 4,
			`SELECT count(*) FROM outbox WHERE global_sequence IN (35, 45, 46) OR global_sequence = 30 AND generation = 1`: 4,
			`SELECT sum(message_count) FROM outbox_deliveries`:                                                             4,
			`SELECT sum(published) FROM outbox_throughput`:                                                                 4,
			`SELECT count(*) FROM outbox_messages WHERE state = 'published' AND stream_sequence = global_sequence`:         4,
		} {
			if got := b.number(t, sql); got != want {
				t.Errorf("%s gives %d, want %d", sql, got, want)
			}
		}
	}
}
