package delivery

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

func rowOf(p partition.ID, sequence int64, stream string, due bool) row {
	return row{Pointer: Pointer{Partition: p, Sequence: sequence, Stream: stream, Parked: true}, due: due}
}

func sequences(rows []row) []int64 {
	var list []int64
	for _, r := range rows {
		list = append(list, r.Sequence)
	}
	return list
}

// A stream's parked rows are taken up to the first that must still wait; the
// same stream key in another partition is another stream.
func TestDueOnly(t *testing.T) {
	t.Parallel()
	got := sequences(dueOnly([]row{
		rowOf(0, 3, "a", true), rowOf(0, 1, "a", true), rowOf(0, 2, "a", false),
		rowOf(0, 4, "b", true), rowOf(1, 5, "a", true), rowOf(1, 6, "a", false), rowOf(1, 7, "a", true),
	}))
	if want := []int64{1, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v", got, want)
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	ready := []row{{Pointer: Pointer{Partition: 0, Sequence: 5, Stream: "x"}}, {Pointer: Pointer{Partition: 0, Sequence: 9, Stream: "y"}}}
	parked := []row{rowOf(0, 7, "a", true), rowOf(0, 12, "b", true), rowOf(1, 3, "c", true)}
	for name, c := range map[string]struct {
		perPartition int
		cut          bool
		want         map[partition.ID][]int64
	}{
		"everything was read":             {10, false, map[partition.ID][]int64{0: {5, 7, 9, 12}, 1: {3}}},
		"a partition reached its limit":   {2, false, map[partition.ID][]int64{0: {5, 7, 9}, 1: {3}}},
		"the claim reached its own limit": {10, true, map[partition.ID][]int64{0: {5, 7, 9}}},
	} {
		asks := []Ask{{Lease: leasetest.Held(0, 1), Most: c.perPartition}, {Lease: leasetest.Held(1, 1), Most: c.perPartition}}
		got := join(asks, slices.Clone(parked), slices.Clone(ready), c.cut)
		for id := range partition.ID(2) {
			if !slices.Equal(sequences(got[id]), c.want[id]) {
				t.Errorf("%s: partition %d gets %v, want %v", name, id, sequences(got[id]), c.want[id])
			}
		}
	}
}
