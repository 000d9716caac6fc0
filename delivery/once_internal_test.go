package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
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

// forgetful is a database that has forgotten what was marked of partition 1.
type forgetful struct{ *Store }

func (forgetful) Claim(context.Context, []Ask, Limits, FailurePolicy) (Claim, error) {
	return Claim{}, fmt.Errorf("claim: %w", ErrForgotten)
}

func (forgetful) Forgotten(context.Context, []Ask) ([]partition.ID, error) {
	return []partition.ID{1}, nil
}

// A look that fails over one partition is no look at the others: none was swept, none is idle, and no pause ends or begins.
func TestALookThatFindsOnePartitionForgottenProvesNothing(t *testing.T) {
	t.Parallel()
	r, b := boarded(t)
	r.store = forgetful{}
	b.Report(condition.Delivery, errors.New("the stream is full"))
	held := []*lease.Lease{leasetest.Held(1, 1), leasetest.Held(2, 1)}
	for _, l := range held {
		r.flowOf(l).stage = ready
	}
	if _, err := r.look(t.Context(), lease.UntimedSet(held...), 0, look{every: true}); !errors.Is(err, errTakenAnew) {
		t.Error(err)
	}
	if one, two := r.flowOf(held[0]), r.flowOf(held[1]); one.stage != fresh || two.stage != ready || !two.swept.IsZero() {
		t.Errorf("they are %s and %s, swept at %s", one.stage, two.stage, two.swept)
	}
	if b.First() == nil || r.pause.failures != 0 || !r.all {
		t.Errorf("the board says %+v, %d failures, looks at all: %t", b.First(), r.pause.failures, r.all)
	}
}
