package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramIsWithinAThirtySecond(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var values []time.Duration
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(5*time.Millisecond)).Truncate(time.Microsecond)
		values = append(values, d)
		h.add(d)
	}
	slices.Sort(values)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := values[min(int(q*float64(len(values))), len(values)-1)]
		got := h.quantile(q)
		if got < exact-exact/20-2*time.Microsecond || got > exact+exact/20+2*time.Microsecond {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	h.add(-time.Second)
	h.add(1000 * time.Hour)
	if h.max != 1000*time.Hour || h.counts[0] == 0 || h.counts[bucketsTotal-1] != 1 {
		t.Errorf("extremes: max %v", h.max)
	}
}

func TestHistogramBucketsAreContiguous(t *testing.T) {
	t.Parallel()
	var empty histogram
	if empty.quantile(0.5) != 0 {
		t.Error("a quantile of nothing must be 0")
	}
	for bucket := range bucketsTotal - 1 {
		edge := upperEdge(bucket)
		if below, at := bucketOf(edge-1), bucketOf(edge); below != bucket || at != bucket+1 {
			t.Fatalf("edge %d of bucket %d: %d below, %d at", edge, bucket, below, at)
		}
	}
}

func TestBitmapForgetsTheLowestPage(t *testing.T) {
	t.Parallel()
	b := newBitmap()
	b.limit = 2
	for _, n := range []uint64{1, pageBits + 1, 2*pageBits + 1} {
		if b.set(n) {
			t.Errorf("%d was not there", n)
		}
	}
	if b.horizon != pageBits || len(b.pages) != 2 || !b.set(pageBits+1) || b.has(1) {
		t.Errorf("horizon %d, %d pages", b.horizon, len(b.pages))
	}
	memory := newTailMemory()
	memory.generations[0] = b
	if p := memory.note(&Message{Sequence: 1}, true); !p.seen {
		t.Error("below the horizon the stream's place decides: passed")
	}
	if p := memory.note(&Message{Sequence: 1}, false); p.seen {
		t.Error("below the horizon the stream's place decides: not passed")
	}
}

// Where the first copy left the cache, a copy is still told from a
// redelivery by its place in the stream.
func TestCopiesBeyondTheCache(t *testing.T) {
	t.Parallel()
	c, err := NewChecker(Config{})
	if err != nil {
		t.Fatal(err)
	}
	message := func(sequence int64, stored uint64) Message {
		return Message{Stream: "s", Sequence: sequence, StreamVersion: sequence, StreamSequence: stored}
	}
	for i := range int64(2 * recentIdentities) {
		c.Receive(message(i+1, uint64(i+1)))
	}
	c.Receive(message(5, 5))
	c.Receive(message(6, 2*recentIdentities+1))
	if r := c.Report(); r.Redelivered != 1 || r.Duplicates != 1 || r.Reordered != 0 {
		t.Error(r)
	}
}
