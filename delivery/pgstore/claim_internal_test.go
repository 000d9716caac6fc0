package pgstore

import (
	"maps"
	"slices"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

func rowOf(p partition.ID, sequence int64, stream string, due bool) delivery.Message {
	return delivery.Message{Pointer: delivery.Pointer{Partition: p, Sequence: sequence, Stream: stream, Parked: true, NotDue: !due}}
}

func sequences(rows []delivery.Message) []int64 {
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
	got := sequences(dueOnly([]delivery.Message{
		rowOf(0, 3, "a", true), rowOf(0, 1, "a", true), rowOf(0, 2, "a", false),
		rowOf(0, 4, "b", true), rowOf(1, 5, "a", true), rowOf(1, 6, "a", false), rowOf(1, 7, "a", true),
	}))
	if want := []int64{1, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v", got, want)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	ready := []delivery.Message{{Pointer: delivery.Pointer{Partition: 0, Sequence: 9, Stream: "y"}}, {Pointer: delivery.Pointer{Partition: 0, Sequence: 5, Stream: "x"}}}
	parked := []delivery.Message{rowOf(0, 7, "a", true), rowOf(0, 12, "b", true), rowOf(1, 3, "c", true)}
	for name, c := range map[string]struct {
		perPartition, room int
		want               map[partition.ID][]int64
		more               bool
	}{
		"everything was read":             {10, 10, map[partition.ID][]int64{0: {5, 7, 9, 12}, 1: {3}}, false},
		"a partition reached its limit":   {2, 10, map[partition.ID][]int64{0: {5, 7}, 1: {3}}, true},
		"the claim reached its own limit": {10, 2, map[partition.ID][]int64{0: {5, 7}}, true},
	} {
		asks := []delivery.Ask{{Lease: leasetest.Held(0, 1), Most: c.perPartition}, {Lease: leasetest.Held(1, 1), Most: c.perPartition}}
		got := map[partition.ID][]int64{}
		for _, b := range share(asks, slices.Clone(parked), slices.Clone(ready), c.room) {
			got[b.Lease.Partition] = sequences(b.Messages)
			if b.Lease.Partition == 0 && b.More != c.more {
				t.Errorf("%s: more is %t", name, b.More)
			}
		}
		if !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A parked row behind the last ready one waits when ready rows may be missing.
func TestJoin(t *testing.T) {
	t.Parallel()
	ready := []delivery.Message{rowOf(0, 5, "x", true), rowOf(0, 9, "y", true)}
	parked := []delivery.Message{rowOf(0, 7, "a", true), rowOf(0, 12, "b", true)}
	for name, c := range map[string]struct {
		ready                    []delivery.Message
		claimFull, partitionFull bool
		want                     []int64
	}{
		"everything was read":             {ready, false, false, []int64{5, 7, 9, 12}},
		"the partition reached its limit": {ready, false, true, []int64{5, 7, 9}},
		"the claim reached its limit":     {ready, true, false, []int64{5, 7, 9}},
		"and left this partition out":     {nil, true, false, nil},
		"nothing is ready":                {nil, false, false, []int64{7, 12}},
	} {
		if got := sequences(join(c.ready, parked, c.claimFull, c.partitionFull)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
