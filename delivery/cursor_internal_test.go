package delivery

import "testing"

// stepping is a publisher that has one message of a partition in flight.
type stepping struct{ Publisher }

func (stepping) Steps(order Ordering) bool { return order == OrderPartition }

// Where partitions go step by step, all of them share the window; otherwise each gets whole batches.
func TestPartitionsThatGoStepByStepShareTheWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		publisher        Publisher
		order            Ordering
		partitions, want int
	}{
		{stepping{}, OrderPartition, 64, 64},
		{stepping{}, OrderPartition, 4, 500},
		{stepping{}, OrderPartition, 0, 500},
		{stepping{}, OrderPartition, 1024, leastShare},
		{stepping{}, OrderStream, 64, 500},
		{nil, OrderPartition, 64, 500},
	} {
		cfg := Config{Ordering: c.order}.WithDefaults()
		r := &Relay{cfg: cfg, publisher: c.publisher}
		if got := r.most(c.partitions); got != c.want {
			t.Errorf("%T, ordering %s, %d partitions: %d messages of each, want %d", c.publisher, c.order, c.partitions, got, c.want)
		}
	}
	small := &Relay{cfg: Config{BatchSize: 10, Ordering: OrderPartition}.WithDefaults(), publisher: stepping{}}
	if got := small.most(1024); got != 10 {
		t.Errorf("%d messages, want no more than a batch of 10", got)
	}
}
