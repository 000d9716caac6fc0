package loop

import (
	"testing"

	"github.com/postrider/postrider/delivery"
)

// stepping is a publisher that may have one message of a partition in flight.
type stepping struct {
	delivery.Publisher
	now bool
}

func (s stepping) Capabilities() delivery.Capabilities { return delivery.Capabilities{Steps: s.now} }

// Where partitions go step by step, all of them share the window; otherwise each gets whole batches.
func TestPartitionsThatGoStepByStepShareTheWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		publisher        delivery.Publisher
		partitions, want int
	}{
		{stepping{now: true}, 64, 64},
		{stepping{now: true}, 4, 500},
		{stepping{now: true}, 0, 500},
		{stepping{now: true}, 1024, minShare},
		{stepping{now: false}, 64, 500},
	} {
		r := &Relay{cfg: Config{}.WithDefaults(), publisher: c.publisher}
		if got := r.claimLimit(c.partitions); got != c.want {
			t.Errorf("%+v, %d partitions: %d messages of each, want %d", c.publisher, c.partitions, got, c.want)
		}
	}
	small := &Relay{cfg: Config{BatchSize: 10}.WithDefaults(), publisher: stepping{now: true}}
	if got := small.claimLimit(1024); got != 10 {
		t.Errorf("%d messages, want no more than a batch of 10", got)
	}
}
