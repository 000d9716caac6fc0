package delivery_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
)

// watched is a pool that tells before it is used for a claim, a look at the
// watermark or a mark.
type watched struct {
	*pgxpool.Pool
	before func()
}

func (w watched) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	w.before()
	return w.Pool.SendBatch(ctx, b)
}

func (w watched) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	w.before()
	return w.Pool.Acquire(ctx)
}

// A lower sequence may be committed between any two steps of a relay, between the
// look for writers and the reading of rows above all: it is never passed over.
func TestACommitBetweenTwoStepsIsNotPassedOver(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	var want []string
	for step := range 6 {
		late, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		low := appendIn(t, late, "s-late")
		want = append(want, texts(low, b.append(t, "s-early", `1`))...)
		steps := 0
		pool := watched{b.pool, func() {
			if steps++; steps == step+1 {
				if err := late.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}}
		if b.store, err = delivery.NewStore(t.Context(), pool, "public", delivery.Relation{}); err != nil {
			t.Fatal(err)
		}
		b.drain(t, b.fencedRelay(t, delivery.Config{SweepInterval: time.Hour}))
		if steps <= step {
			t.Fatalf("the relay made %d steps", steps)
		}
	}
	var got []string
	for _, m := range b.stored(t) {
		if sequence := m.Header.Get("Outbox-Sequence"); sequence != "" {
			got = append(got, sequence)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}
