package loop

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// told is an observer that does nothing but count.
type told struct{ published int }

func (o *told) Claimed(time.Time, int, int, error)                      {}
func (o *told) Published(time.Time, delivery.Batch, []delivery.Outcome) { o.published++ }
func (o *told) Marked(time.Time, []delivery.Result, error)              {}
func (o *told) Taken(time.Time, *lease.Lease, error)                    {}

// instant acknowledges at once, without an allocation of its own.
type instant struct{ outcomes []delivery.Outcome }

func (p instant) Take(context.Context, *lease.Lease, delivery.Known) (delivery.Standing, error) {
	return delivery.Standing{}, nil
}
func (p instant) Kept(context.Context, partition.ID) (uint64, error) { return 0, nil }
func (p instant) Between(_ context.Context, _ partition.ID, after, _ uint64) (uint64, []delivery.Delivered, error) {
	return after, nil, nil
}
func (p instant) Extent(context.Context) (delivery.Extent, error) { return delivery.Extent{}, nil }
func (p instant) Capabilities() delivery.Capabilities             { return delivery.Capabilities{} }
func (p instant) Ready() <-chan struct{}                          { return nil }
func (p instant) Records(delivery.Session) (last, written uint64) { return 0, 0 }
func (p instant) Trim(context.Context, partition.ID, delivery.Session, uint64, uint64) (more bool, err error) {
	return false, nil
}

func (p instant) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i := range look {
		done(i, p.outcomes)
	}
}

// The seam for traces costs no allocation, used or not, and nobody is told
// when there is nobody.
func TestAnObserverCostsNothingWhenThereIsNone(t *testing.T) { //nolint:paralleltest // it counts allocations
	const size = 100
	b := delivery.Batch{Lease: leasetest.Held(1, 1)}
	outcomes := make([]delivery.Outcome, size)
	for i := range outcomes {
		outcomes[i].Kind = delivery.Published
		b.Messages = append(b.Messages, delivery.Message{Pointer: delivery.Pointer{Partition: 1, Sequence: int64(i), Stream: "s"}, Event: &delivery.Event{RecordedAt: time.Now()}})
	}
	// A part of an allocation comes and goes: the race detector has pools lose what they are given, now and then.
	allocations := func(o Observer) float64 {
		r, err := NewRelay(Config{Observer: o, Registerer: prometheus.NewRegistry()}, nil, instant{outcomes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const runs = 1000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			r.publish([]*inflight{{Result: delivery.Result{Batch: b}}}, r.shaping.Largest(r.publisher.Capabilities()), func(*inflight) {})
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / runs
	}
	count := &told{}
	without, with := allocations(nil), allocations(count)
	if math.Abs(with-without) > 0.5 {
		t.Errorf("%v allocations without an observer, %v with one that does nothing", without, with)
	}
	if count.published == 0 {
		t.Error("the observer was not told")
	}
	r, err := NewRelay(Config{}, nil, instant{outcomes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { r.clock() }); n != 0 || !r.clock().IsZero() {
		t.Errorf("the clock is read for nobody (%v allocations)", n)
	}
}
