package measure

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// commit is when an event was known to be committed.
type commit struct {
	sequence int64
	at       time.Time
}

// writersWait is how long after its own commit an event had to wait for the last one that drew its sequence earlier: the
// latency below which nobody gets who keeps the order of the sequences and learns the place of an event only by its
// commit. It sorts the commits, and returns milliseconds in ascending order.
func writersWait(commits []commit) []float64 {
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.sequence, b.sequence) })
	waits := make([]float64, len(commits))
	var last time.Time
	for i, c := range commits {
		if c.at.After(last) {
			last = c.at
		}
		waits[i] = float64(last.Sub(c.at)) / float64(time.Millisecond)
	}
	slices.Sort(waits)
	return waits
}

// quantile of ascending values: the least that a share q, above 0 and at most 1, does not exceed; 0 where there is none.
func quantile(ascending []float64, q float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[int(math.Ceil(q*float64(len(ascending))))-1]
}
