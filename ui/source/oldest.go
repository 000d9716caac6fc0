package source

import (
	"context"
	"sync"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/partition"
)

// oldestReader reads the oldest pending row of each partition far more often than the backlog can be counted: alerts rest on its age. Each
// look begins where the one before found the first row, and each count tells anew where that is.
type oldestReader struct {
	mu     sync.Mutex
	start  map[partition.ID]int64
	counts int

	topics, types delivery.Names // that are told apart
}

func (o *oldestReader) named(ctx context.Context, store *pgstore.Store) (pgstore.Named, error) {
	o.mu.Lock()
	from := o.start
	o.mu.Unlock()
	return store.Named(ctx, from, &o.topics, &o.types)
}

// count counts the backlog and begins anew where the rows begin.
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
	if o.counts == counts { // a count that came between knows better
		o.start = start
	}
	return oldest, nil
}
