package loop_test

import (
	"context"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
)

// changed is a database that has forgotten a takeover when it is asked first.
type changed struct {
	*pgstore.Store
	b      *bundle
	claims int
}

func (c *changed) Claim(ctx context.Context, asks []delivery.Ask, limits delivery.Limits, policy delivery.FailurePolicy) (delivery.Claim, error) {
	if c.claims++; c.claims == 1 {
		if _, err := c.b.pool.Exec(ctx, `UPDATE outbox_partitions SET revision = 1`); err != nil {
			return delivery.Claim{}, err
		}
	}
	return c.Store.Claim(ctx, asks, limits, policy)
}

// What one look does not get, as a partition is not as it was left, is delivered before a relay that runs once ends.
func TestOnceDeliversWhatALookHadToDrop(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	b.append(t, "s", `{}`)
	b.append(t, "s", `{}`)
	store := &changed{Store: b.store, b: b}
	r, err := loop.NewRelay(loop.Config{Logger: testLogger(t)}, store, b.publisher(t), b.bell)
	if err != nil {
		t.Fatal(err)
	}
	b.drain(t, r)
	var left int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil || left > 0 || store.claims < 2 {
		t.Errorf("%d rows are left behind %d looks, %v", left, store.claims, err)
	}
}
