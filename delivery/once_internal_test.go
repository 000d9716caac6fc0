package delivery

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
)

// changed is a database that has forgotten a takeover when it is asked first.
type changed struct {
	*Store
	pool   *pgxpool.Pool
	claims int
}

func (c *changed) Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error) {
	if c.claims++; c.claims == 1 {
		if _, err := c.pool.Exec(ctx, `UPDATE outbox_partitions SET revision = 1`); err != nil {
			return Claim{}, err
		}
	}
	return c.Store.Claim(ctx, asks, limits, policy)
}

// willing publishes everything at once.
type willing struct{ instant }

func (willing) Publish(look []Batch, done func(int, []Outcome)) {
	for i, b := range look {
		outcomes := make([]Outcome, len(b.Messages))
		for k := range outcomes {
			outcomes[k] = Outcome{Kind: Published, StreamSequence: uint64(k) + 1}
		}
		done(i, outcomes)
	}
}

// What one look does not get, as a partition is not as it was left, is delivered before a relay that runs once ends.
func TestOnceDeliversWhatALookHadToDrop(t *testing.T) {
	t.Parallel()
	store, pool := oldestStore(t, 1)
	l := leasetest.Held(0, 1)
	if _, err := pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_owner = $1, lease_epoch = $2`, l.Owner, l.Epoch); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `SELECT outbox_append('s', 'a', '{}')`, `SELECT outbox_append('s', 'a', '{}')`)
	r, err := newRelay(Config{Logger: slog.New(slog.DiscardHandler)}, &changed{Store: store, pool: pool}, willing{}, Silence{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RunOnce(t.Context(), lease.UntimedSet(l)); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}
