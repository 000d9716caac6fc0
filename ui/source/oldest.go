package source

import (
	"context"
	"sync"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
)

// oldestReader reads each partition's oldest pending row far more often than the backlog can be counted: alerts rest on its age. Each read
// begins at the first row of the last one, and each count renews that position.
type oldestReader struct {
	mu     sync.Mutex
	start  map[partition.ID]int64
	counts int

	topics, types delivery.Names // the distinct ones
}

func (o *oldestReader) named(ctx context.Context, store *pgstore.Store) (pgstore.Named, error) {
	o.mu.Lock()
	from := o.start
	o.mu.Unlock()
	return store.Named(ctx, from, &o.topics, &o.types)
}

// count counts the backlog and renews the start of the next read.
func (o *oldestReader) count(ctx context.Context, store *pgstore.Store) (pgstore.Backlog, error) {
	b, err := store.Backlog(ctx)
	if err != nil {
		return b, err
	}
	start := make(map[partition.ID]int64, len(b.Partitions))
	for _, p := range b.Partitions {
		start[p.Partition] = p.Start
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.start, o.counts = start, o.counts+1
	return b, nil
}

func (o *oldestReader) read(ctx context.Context, store *pgstore.Store) (pgstore.Oldest, error) {
	o.mu.Lock()
	from, counts := o.start, o.counts
	o.mu.Unlock()
	oldest, err := store.Oldest(ctx, from)
	if err != nil {
		return oldest, err
	}
	start := make(map[partition.ID]int64, len(oldest.Partitions))
	for _, p := range oldest.Partitions {
		start[p.Partition] = p.Start
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == counts { // a count between has a newer start
		o.start = start
	}
	return oldest, nil
}
