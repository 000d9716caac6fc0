package ui

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// RebalanceKind says what became of partitions.
type RebalanceKind string

// The kinds of a rebalance.
const (
	// RebalanceMoved partitions went from one worker to another.
	RebalanceMoved RebalanceKind = "moved"
	// RebalanceTaken partitions had no owner and got one.
	RebalanceTaken RebalanceKind = "taken"
	// RebalanceReleased partitions were given back, and nobody had taken them yet.
	RebalanceReleased RebalanceKind = "released"
	// RebalanceExpired leases ran out: their owner stopped renewing them.
	RebalanceExpired RebalanceKind = "expired"
	// RebalanceRetaken partitions were lost and taken again by the same worker.
	RebalanceRetaken RebalanceKind = "retaken"
)

// Rebalance is a change of ownership that one process saw between two of its
// snapshots.
type Rebalance struct {
	// ID grows with time. It counts in this process alone.
	ID int64
	// After and At are the moments of the two snapshots, by the database clock.
	After, At time.Time
	Kind      RebalanceKind
	// From and To are the owners before and after; uuid.Nil: none. The hosts are
	// empty where the worker's row was gone already.
	From, To         uuid.UUID
	FromHost, ToHost string
	// Partitions are ascending.
	Partitions []int
}

// rebalancesKept bounds the log.
const rebalancesKept = 500

// rebalanceLog remembers who got and lost which partitions, as far as it shows in
// successive snapshots: nothing of it is stored. A process that just started
// knows nothing, what happened twice between two snapshots shows once, and while
// nobody looks at a process no snapshots are taken.
type rebalanceLog struct {
	mu      sync.Mutex
	since   time.Time
	last    int64
	entries []Rebalance // the oldest first
}

// observe compares two snapshots; the first one has no predecessor.
func (l *rebalanceLog) observe(before, after Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = after.At
		return
	}
	for _, change := range rebalancesBetween(before, after) {
		l.last++
		change.ID = l.last
		l.entries = append(l.entries, change)
	}
	if surplus := len(l.entries) - rebalancesKept; surplus > 0 {
		l.entries = slices.Delete(l.entries, 0, surplus)
	}
}

// rebalancesBetween groups the changes by what happened and between whom.
func rebalancesBetween(before, after Snapshot) []Rebalance {
	was := make(map[int]Partition, len(before.Partitions))
	for _, p := range before.Partitions {
		was[p.Number] = p
	}
	hosts := map[uuid.UUID]string{}
	for _, w := range slices.Concat(before.Workers, after.Workers) {
		hosts[w.ID] = w.Hostname
	}
	type group struct {
		kind     RebalanceKind
		from, to uuid.UUID
	}
	groups := map[group][]int{}
	for _, p := range after.Partitions {
		old := was[p.Number]
		g := group{from: ownerOf(old), to: ownerOf(p)}
		switch {
		case g.from == g.to && (g.to == uuid.Nil || p.Epoch == old.Epoch):
			continue
		case g.from == g.to:
			g.kind = RebalanceRetaken
		case g.from == uuid.Nil:
			g.kind = RebalanceTaken
		case g.to != uuid.Nil:
			g.kind = RebalanceMoved
		case p.Owner == g.from:
			g.kind = RebalanceExpired
		default:
			g.kind = RebalanceReleased
		}
		groups[g] = append(groups[g], p.Number)
	}
	changes := make([]Rebalance, 0, len(groups))
	for g, numbers := range groups {
		slices.Sort(numbers)
		changes = append(changes, Rebalance{
			After: before.At, At: after.At, Kind: g.kind, From: g.from, To: g.to,
			FromHost: hosts[g.from], ToHost: hosts[g.to], Partitions: numbers,
		})
	}
	slices.SortFunc(changes, func(a, b Rebalance) int { return cmp.Compare(a.Partitions[0], b.Partitions[0]) })
	return changes
}

func ownerOf(p Partition) uuid.UUID {
	if p.Owned() {
		return p.Owner
	}
	return uuid.Nil
}

// Rebalances returns what the cache's snapshots told about changes of ownership,
// the newest first: at most limit entries with ids below before, 0: from the
// newest; of one partition alone if that is not negative. since is the moment of
// the first snapshot, zero before it. At most 500 entries are kept.
func (c *Cache) Rebalances(before int64, limit, partition int) (entries []Rebalance, since time.Time) {
	c.rebalances.mu.Lock()
	defer c.rebalances.mu.Unlock()
	for _, e := range slices.Backward(c.rebalances.entries) {
		if len(entries) == limit {
			break
		}
		if (before == 0 || e.ID < before) && (partition < 0 || slices.Contains(e.Partitions, partition)) {
			entries = append(entries, e)
		}
	}
	return entries, c.rebalances.since
}
