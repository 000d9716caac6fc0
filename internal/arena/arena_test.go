package arena_test

import (
	"testing"

	"github.com/postrider/postrider/internal/arena"
)

// The raw bytes are the same memory each time, as a driver's are.
func TestWhatIsKeptDoesNotChange(t *testing.T) {
	t.Parallel()
	var texts arena.Texts
	var bodies arena.Bodies
	var strings []string
	var copies [][]byte
	raw := make([]byte, 200_000)
	at := func(i, j int) byte { return byte(i*7 + j) }
	length := func(i int) int { return i * i % 90_000 }
	for i := range 500 {
		part := raw[:length(i)]
		for j := range part {
			part[j] = at(i, j)
		}
		strings, copies = append(strings, texts.Keep(part)), append(copies, append(bodies.Keep(part), 'x'))
	}
	for i := range 500 {
		if len(strings[i]) != length(i) || len(copies[i]) != length(i)+1 || copies[i][length(i)] != 'x' {
			t.Fatalf("%d has %d and %d bytes", i, len(strings[i]), len(copies[i]))
		}
		for j := range length(i) {
			if strings[i][j] != at(i, j) || copies[i][j] != at(i, j) {
				t.Fatalf("%d became %d and %d at %d, want %d", i, strings[i][j], copies[i][j], j, at(i, j))
			}
		}
	}
	if bodies.Keep(nil) != nil || bodies.Keep([]byte{}) == nil {
		t.Error("nil and empty are not told apart")
	}
}

func TestSmallPiecesCostAFractionOfAnAllocation(t *testing.T) { //nolint:paralleltest // counts allocations
	var texts arena.Texts
	var bodies arena.Bodies
	raw, n := make([]byte, 40), byte(0)
	each := testing.AllocsPerRun(10_000, func() {
		n++
		raw[0] = n
		texts.Keep(raw)
		bodies.Keep(raw)
	})
	if each > 0.1 {
		t.Errorf("%.2f allocations", each)
	}
}
