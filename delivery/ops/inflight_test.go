package ops_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// worker claims and marks the one partition of a bundle.
type worker struct {
	store *pgstore.Store
	lease *lease.Lease
	row   delivery.Taken
}

func (b *bundle) worker(t *testing.T) worker {
	t.Helper()
	store, err := pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := lease.NewStore(t.Context(), b.pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	held, err := leases.Acquire(t.Context(), uuid.Must(uuid.NewV7()), time.Minute, []partition.ID{0})
	if err != nil || len(held) != 1 {
		t.Fatalf("acquired %d partitions: %v", len(held), err)
	}
	row, err := store.Take(t.Context(), held[0], "")
	if err != nil {
		t.Fatal(err)
	}
	return worker{store: store, lease: held[0], row: row}
}

func (w worker) claim(t *testing.T, messages int) delivery.Batch {
	t.Helper()
	asks := []delivery.Ask{{Lease: w.lease, Revision: w.row.Revision, After: math.MinInt64, Most: 100}}
	c, err := w.store.Claim(t.Context(), asks, delivery.Limits{Total: 100, UpTo: math.MaxInt64},
		delivery.BehindStream)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Batches) != 1 || len(c.Batches[0].Messages) != messages {
		t.Fatalf("claimed %+v", c.Batches)
	}
	return c.Batches[0]
}

func (w worker) mark(t *testing.T, batch delivery.Batch, outcomes ...delivery.Outcome) {
	t.Helper()
	results := []delivery.Result{{Batch: batch, Outcomes: outcomes, Revision: w.row.Revision}}
	fenced, err := w.store.Mark(t.Context(), results, delivery.DefaultRetryPolicy(), func() float64 { return 0 })
	if err != nil || len(fenced) != 0 {
		t.Fatalf("mark: fenced %v, %v", fenced, err)
	}
}

// A failed message that is requeued on its way is another message by then: what
// became of the old one changes nothing.
func TestRequeueWhileInFlight(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]delivery.Outcome{
		"published": {Kind: delivery.Published, StreamSequence: 5},
		"failed":    {Kind: delivery.Retry},
		"dead":      {Kind: delivery.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			failed, behind := b.append(t, "s"), b.append(t, "s")
			b.fail(t, "no", failed)
			b.block(t, behind)
			b.exec(t, `UPDATE outbox SET available_at = clock_timestamp()`)
			w := b.worker(t)
			batch := w.claim(t, 2)
			c := ops.Command{Actor: "ann", Selection: ops.Selection{State: ops.Failed, Sequences: []int64{failed}}}
			if r, err := b.op.Requeue(t.Context(), c); err != nil || r.Count != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			w.mark(t, batch, outcome, delivery.Outcome{Kind: delivery.Behind})
			b.wantQueue(t, "s", at(failed, "pending"), at(behind, "blocked"))
			again := w.claim(t, 2)
			if m := again.Messages[0]; m.Sequence != failed || m.Generation != 1 || m.Attempts != 0 {
				t.Errorf("claimed again: %+v", m.Pointer)
			}
			w.mark(t, again, delivery.Outcome{Kind: delivery.Published, StreamSequence: 6},
				delivery.Outcome{Kind: delivery.Published, StreamSequence: 7})
			b.wantQueue(t, "s")
		})
	}
}

// A message is claimed as blocked by a dead one that goes before the mark: it
// leads its stream then.
func TestSkipBeforeTheBlockedAreParked(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	dead, behind, last := b.append(t, "s"), b.append(t, "s"), b.append(t, "s")
	b.kill(t, "e", dead)
	w := b.worker(t)
	batch := w.claim(t, 2)
	if !batch.Messages[0].Blocked || !batch.Messages[1].Blocked {
		t.Fatalf("claimed %+v", batch.Messages)
	}
	if r, err := b.op.Skip(t.Context(), command(dead)); err != nil || r.Count != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.mark(t, batch, delivery.Outcome{Kind: delivery.Behind}, delivery.Outcome{Kind: delivery.Behind})
	b.wantQueue(t, "s", at(behind, "pending"), at(last, "blocked"))
	if again := w.claim(t, 2); again.Messages[0].Sequence != behind || again.Messages[0].Blocked {
		t.Errorf("claimed again: %+v", again.Messages)
	}
}
