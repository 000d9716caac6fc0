package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// lookInterval is the time between two looks at the leases; it bounds the error of timings.
const lookInterval = 50 * time.Millisecond

// lookPatience bounds a look at a database that does not answer.
const lookPatience = time.Second

// Look is the state of the cluster at one instant.
type Look struct {
	// Owned counts the leases of each worker, Unowned the partitions that nobody has.
	Owned   map[partition.WorkerID]int
	Unowned int
	// Waiting is the age of the oldest committed event that was not received; 0 if there is none.
	Waiting time.Duration
	// Err is the failed read of the leases; nothing is owned then.
	Err error
}

func lookAt(ctx context.Context, leases *lease.Store) Look {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	snapshot, err := leases.Snapshot(ctx)
	l := Look{Owned: map[partition.WorkerID]int{}, Err: err}
	for _, row := range snapshot.Rows {
		if row.Held() {
			l.Owned[row.Owner]++
		} else {
			l.Unowned++
		}
	}
	return l
}

// whole returns an error unless every worker runs and has its share of the partitions, and nobody else any.
func (l Look) whole(members []Member) error {
	if l.Err != nil {
		return fmt.Errorf("the leases cannot be read: %w", l.Err)
	}
	if l.Unowned > 0 {
		return fmt.Errorf("%d partitions have no owner", l.Unowned)
	}
	fewest, most, total, all := -1, 0, 0, 0
	for _, n := range l.Owned {
		all += n
	}
	for _, m := range members {
		n := l.Owned[m.ID]
		if fewest < 0 || n < fewest {
			fewest = n
		}
		most, total = max(most, n), total+n
	}
	switch {
	case all == 0:
		return errors.New("there are no partitions")
	case total < all:
		return fmt.Errorf("%d partitions belong to workers that are gone", all-total)
	case most-fewest > 1:
		return fmt.Errorf("the workers have between %d and %d partitions", fewest, most)
	}
	return nil
}
