package partition_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/partition"
)

// snapshots draws a cluster: some workers, some owners, some of them gone.
func snapshots() *rapid.Generator[partition.Snapshot] {
	return rapid.Custom(func(t *rapid.T) partition.Snapshot {
		id := rapid.Custom(func(t *rapid.T) partition.WorkerID {
			return partition.WorkerID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		})
		s := partition.Snapshot{
			Workers: rapid.SliceOfNDistinct(id, 1, 12, rapid.ID[partition.WorkerID]).Draw(t, "workers"),
			Count:   partition.Count(rapid.IntRange(1, 300).Draw(t, "count")),
			Owners:  map[partition.ID]partition.WorkerID{},
		}
		holders := append(slices.Clone(s.Workers), rapid.SliceOfN(id, 0, 3).Draw(t, "gone")...)
		for p := range s.Count {
			if h := rapid.IntRange(-2, len(holders)-1).Draw(t, "holder"); h >= 0 {
				s.Owners[partition.ID(p)] = holders[h]
			}
		}
		return s
	})
}

func strategies() *rapid.Generator[partition.Strategy] {
	return rapid.SampledFrom([]partition.Strategy{partition.Modulo, partition.Sticky})
}

func TestEveryPartitionOnceAndBalanced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		plan := partition.Assign(strategies().Draw(t, "strategy"), s)
		seen := map[partition.ID]int{}
		smallest, largest := int(s.Count), 0
		for _, w := range s.Workers {
			ids := plan.Desired(w)
			if !slices.IsSorted(ids) {
				t.Fatalf("not ascending: %v", ids)
			}
			smallest, largest = min(smallest, len(ids)), max(largest, len(ids))
			for _, id := range ids {
				seen[id]++
			}
		}
		for p := range s.Count {
			if seen[partition.ID(p)] != 1 {
				t.Fatalf("partition %d appears %d times", p, seen[partition.ID(p)])
			}
		}
		if len(seen) != int(s.Count) || len(owners(plan)) != int(s.Count) {
			t.Fatalf("%d partitions in the plan, want %d", len(seen), s.Count)
		}
		if largest-smallest > 1 {
			t.Fatalf("shares from %d to %d", smallest, largest)
		}
	})
}

func TestOrderOfTheSnapshotIsIrrelevant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		strategy := strategies().Draw(t, "strategy")
		plan := partition.Assign(strategy, s)
		shuffled := s
		shuffled.Workers = append(rapid.Permutation(s.Workers).Draw(t, "order"), s.Workers[0])
		if again := partition.Assign(strategy, shuffled); !reflect.DeepEqual(plan, again) {
			t.Fatalf("plans differ:\n%v\n%v", plan, again)
		}
	})
}

func TestACarriedOutPlanMovesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		strategy := strategies().Draw(t, "strategy")
		plan := partition.Assign(strategy, s)
		s.Owners = owners(plan)
		again := partition.Assign(strategy, s)
		if moves(again, s.Owners) != 0 || !maps.Equal(owners(again), s.Owners) {
			t.Fatalf("planning again moves %d partitions", moves(again, s.Owners))
		}
	})
}

// TestStickyMovesAreMinimal compares with the least that any balanced plan can
// move: every way of giving the larger shares to some of the workers is tried.
func TestStickyMovesAreMinimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		owned := map[partition.WorkerID]int{}
		for _, w := range s.Owners {
			owned[w]++
		}
		n, count := len(s.Workers), int(s.Count)
		most := 0
		for larger := range 1 << n {
			if bits(larger) != count%n {
				continue
			}
			kept := 0
			for i, w := range s.Workers {
				kept += min(owned[w], count/n+larger>>i&1)
			}
			most = max(most, kept)
		}
		// A partition that keeps no living owner is moved by every plan.
		got := moves(partition.Assign(partition.Sticky, s), s.Owners)
		if want := len(s.Owners) - most; got != want {
			t.Fatalf("%d moves, the least possible is %d", got, want)
		}
	})
}

func bits(n int) int {
	count := 0
	for ; n > 0; n >>= 1 {
		count += n & 1
	}
	return count
}

func TestModuloIsPositional(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots().Draw(t, "snapshot")
		workers := slices.SortedFunc(slices.Values(s.Workers), func(a, b partition.WorkerID) int { return bytes.Compare(a[:], b[:]) })
		for id, w := range owners(partition.Assign(partition.Modulo, s)) {
			if want := workers[int(id)%len(workers)]; w != want {
				t.Fatalf("partition %d is with %v, want %v", id, w, want)
			}
		}
	})
}

// TestAFifthWorker puts numbers to what the strategies cost.
func TestAFifthWorker(t *testing.T) {
	t.Parallel()
	workers := make([]partition.WorkerID, 5)
	random := rand.NewChaCha8([32]byte{1})
	for i := range workers {
		id, err := uuid.NewRandomFromReader(random)
		if err != nil {
			t.Fatal(err)
		}
		workers[i] = id
	}
	slices.SortFunc(workers, func(a, b partition.WorkerID) int { return bytes.Compare(a[:], b[:]) })
	before := partition.Assign(partition.Modulo, partition.Snapshot{Workers: workers[:4], Count: 256})
	for strategy, want := range map[partition.Strategy]int{partition.Modulo: 204, partition.Sticky: 51} {
		s := partition.Snapshot{Workers: workers, Count: 256, Owners: owners(before)}
		if got := moves(partition.Assign(strategy, s), s.Owners); got != want {
			t.Errorf("%s moves %d of 256 partitions, want %d", strategy, got, want)
		}
	}
}

func TestNoWorkers(t *testing.T) {
	t.Parallel()
	if plan := partition.Assign(partition.Sticky, partition.Snapshot{Count: 4}); len(plan) != 0 {
		t.Errorf("plan without workers: %v", plan)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	var me partition.WorkerID
	take, give := partition.Plan{me: {1, 2, 3}}.Diff(me, []partition.ID{7, 3, 5})
	if !slices.Equal(take, []partition.ID{1, 2}) || !slices.Equal(give, []partition.ID{5, 7}) {
		t.Errorf("Diff = %v, %v", take, give)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"modulo", "sticky"} {
		if s, err := partition.ParseStrategy(name); err != nil || string(s) != name {
			t.Errorf("ParseStrategy(%q) = %q, %v", name, s, err)
		}
	}
	for _, name := range []string{"", "Modulo", "random"} {
		if _, err := partition.ParseStrategy(name); !errors.Is(err, partition.ErrStrategy) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("ParseStrategy(%q): %v", name, err)
		}
	}
	for n, ok := range map[partition.Count]bool{-1: false, 0: false, 1: true, 32767: true, 32768: false} {
		if err := n.Validate(); (err == nil) != ok || !ok && !errors.Is(err, partition.ErrCount) {
			t.Errorf("Count(%d).Validate() = %v", n, err)
		}
	}
}

// owners is the plan the other way round.
func owners(p partition.Plan) map[partition.ID]partition.WorkerID {
	owners := make(map[partition.ID]partition.WorkerID)
	for worker, ids := range p {
		for _, id := range ids {
			owners[id] = worker
		}
	}
	return owners
}

// moves counts the partitions that go from one worker to another.
func moves(p partition.Plan, owners map[partition.ID]partition.WorkerID) int {
	moves := 0
	for worker, ids := range p {
		for _, id := range ids {
			if now, held := owners[id]; held && now != worker {
				moves++
			}
		}
	}
	return moves
}
