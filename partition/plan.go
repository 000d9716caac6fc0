package partition

import "slices"

// Plan has the partitions that each worker should own, in ascending order. A worker without a share may be missing or have an empty list.
type Plan map[WorkerID][]ID

// Desired returns the partitions that the worker should own, in ascending order;
// empty when it has no share. The caller may change the result.
func (p Plan) Desired(worker WorkerID) []ID {
	return append([]ID{}, p[worker]...)
}

// Diff returns the partitions to take and to give up between the owned ones and the plan, both ascending.
func (p Plan) Diff(worker WorkerID, owned []ID) (take, give []ID) {
	desired := slices.Sorted(slices.Values(p[worker]))
	owned = slices.Sorted(slices.Values(owned))
	for _, id := range desired {
		if _, found := slices.BinarySearch(owned, id); !found {
			take = append(take, id)
		}
	}
	for _, id := range owned {
		if _, found := slices.BinarySearch(desired, id); !found {
			give = append(give, id)
		}
	}
	return take, give
}
