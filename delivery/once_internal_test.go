package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
)

// elsewhere is a database whose first claim another server answers.
type elsewhere struct {
	*Store
	claims int
}

func (e *elsewhere) Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error) {
	found, err := e.Store.Claim(ctx, asks, limits, policy)
	if e.claims++; e.claims == 1 {
		found.server = found.server.Add(-time.Second)
	}
	return found, err
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

// What one look drops, as its server is another one, is delivered before a relay that runs once ends.
func TestOnceDeliversWhatALookHadToDrop(t *testing.T) {
	t.Parallel()
	store, pool := oldestStore(t, 1)
	l := leasetest.Held(0, 1)
	if _, err := pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_owner = $1, lease_epoch = $2`, l.Owner, l.Epoch); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `SELECT outbox_append('s', 'a', '{}')`, `SELECT outbox_append('s', 'a', '{}')`)
	r, err := newRelay(Config{Logger: slog.New(slog.DiscardHandler)}, &elsewhere{Store: store}, willing{}, Silence{})
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
