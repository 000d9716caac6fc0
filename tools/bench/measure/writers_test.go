package measure

import (
	"slices"
	"testing"
	"time"
)

// An event waits for the latest commit among those with a lower sequence, and for none with a higher one.
func TestWritersWait(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(sequence int64, ms float64) commit {
		return commit{sequence, began.Add(time.Duration(ms * float64(time.Millisecond)))}
	}
	got := writersWait([]commit{at(4, 3), at(1, 0), at(3, 1), at(2, 5), at(5, 6)})
	if want := []float64{0, 0, 0, 2, 4}; !slices.Equal(got, want) { // sequence 4 and 3 wait for 2, which came last
		t.Errorf("waits %v ms, want %v", got, want)
	}
	if got := writersWait(nil); len(got) != 0 {
		t.Errorf("nobody waits %v", got)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	ten := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0.01: 1, 0.1: 1, 0.5: 5, 0.51: 6, 0.99: 10, 1: 10} {
		if got := quantile(ten, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}
