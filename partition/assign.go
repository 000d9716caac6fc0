package partition

import (
	"bytes"
	"cmp"
	"slices"
)

// Snapshot is the input of an assignment.
type Snapshot struct {
	// Workers are the living workers, in any order.
	Workers []WorkerID
	// Count is the number of partitions.
	Count Count
	// Owners maps a partition to the worker that holds its lease now. It may
	// name workers that are not among Workers; their partitions are free.
	Owners map[ID]WorkerID
}

// Assign shares the partitions 0..Count-1 among the workers. The result depends on nothing but the arguments, and not on the order of
// Workers. A strategy that ParseStrategy refuses is treated as Modulo; without workers the plan is empty.
func Assign(strategy Strategy, s Snapshot) Plan {
	workers := sorted(s.Workers)
	if len(workers) == 0 {
		return Plan{}
	}
	if strategy == Sticky {
		return sticky(workers, s)
	}
	return modulo(workers, s.Count)
}

func sorted(workers []WorkerID) []WorkerID {
	workers = slices.Clone(workers)
	slices.SortFunc(workers, compareWorkers)
	return slices.Compact(workers)
}

func compareWorkers(a, b WorkerID) int { return bytes.Compare(a[:], b[:]) }

func modulo(workers []WorkerID, count Count) Plan {
	plan := make(Plan, len(workers))
	for p := range count {
		w := workers[int(p)%len(workers)]
		plan[w] = append(plan[w], ID(p))
	}
	return plan
}

// sticky lets every worker keep its partitions up to its quota and deals the rest out in ascending order. The largest owners get
// the larger quotas: that maximizes the sum of min(owned, quota), and so the number of unmoved partitions.
func sticky(workers []WorkerID, s Snapshot) Plan {
	owned := make(Plan, len(workers))
	for _, w := range workers {
		owned[w] = nil
	}
	var free []ID
	for p := range s.Count {
		if w, held := s.Owners[ID(p)]; held {
			if _, alive := owned[w]; alive {
				owned[w] = append(owned[w], ID(p))
				continue
			}
		}
		free = append(free, ID(p))
	}
	quota := quotas(workers, owned, int(s.Count))
	plan := make(Plan, len(workers))
	for _, w := range workers {
		keep := min(len(owned[w]), quota[w])
		plan[w] = owned[w][:keep:keep]
		free = append(free, owned[w][keep:]...)
	}
	slices.Sort(free)
	for _, w := range workers {
		missing := quota[w] - len(plan[w])
		plan[w] = append(plan[w], free[:missing]...)
		slices.Sort(plan[w])
		free = free[missing:]
	}
	return plan
}

// quotas gives every worker count/n partitions, and one of the remainder's to each of the largest owners, ties by id.
func quotas(workers []WorkerID, owned Plan, count int) map[WorkerID]int {
	ranked := slices.Clone(workers)
	slices.SortStableFunc(ranked, func(a, b WorkerID) int {
		return cmp.Compare(len(owned[b]), len(owned[a]))
	})
	quota := make(map[WorkerID]int, len(ranked))
	for i, w := range ranked {
		quota[w] = count / len(ranked)
		if i < count%len(ranked) {
			quota[w]++
		}
	}
	return quota
}
