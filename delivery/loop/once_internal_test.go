package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// forgetful is a database that has forgotten what was marked of partition 1.
type forgetful struct{ delivery.Store }

func (forgetful) Claim(context.Context, []delivery.Ask, delivery.Limits, delivery.FailurePolicy) (delivery.Claim, error) {
	return delivery.Claim{}, fmt.Errorf("claim: %w", delivery.ErrForgotten)
}

func (forgetful) Forgotten(context.Context, []delivery.Ask) ([]partition.ID, error) {
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
		r.stateOf(l).state = ready
	}
	if _, err := r.look(t.Context(), lease.UntimedSet(held...), 0, look{every: true}); !errors.Is(err, errTakenAnew) {
		t.Error(err)
	}
	if one, two := r.stateOf(held[0]), r.stateOf(held[1]); one.state != fresh || two.state != ready || !two.swept.IsZero() {
		t.Errorf("they are %s and %s, swept at %s", one.state, two.state, two.swept)
	}
	if b.First() == nil || r.pause.failures != 0 || !r.all {
		t.Errorf("the board says %+v, %d failures, looks at all: %t", b.First(), r.pause.failures, r.all)
	}
}
