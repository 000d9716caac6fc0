package model

import "slices"

// edge is a step between two numbered states.
type edge struct{ from, to uint32 }

// isFinished reports whether every event is in the stream and every mark durable.
func (x *explorer) isFinished(s *State) bool {
	return s.Database.Durable == 0 && s.Stream.stored() == x.all()
}

// isLive reports whether somebody can act for the partition: the lease can be acquired once more, or its holder is there.
func (x *explorer) isLive(s *State) bool {
	holder := false
	for _, me := range s.Workers {
		holder = holder || me.At != Idle && me.Epoch == s.Database.Epoch
	}
	return holder || s.Database.Epoch < x.Epochs
}

// stuck looks for a live state from which no finished one can be reached, the nearest one.
func (x *explorer) stuck() (number uint32, found bool) {
	// Sort the steps by where they lead: into[start[n]:start[n+1]] come from the predecessors of n.
	start := make([]uint32, len(x.parents)+1)
	for _, e := range x.edges {
		start[e.to+1]++
	}
	for n := range x.parents {
		start[n+1] += start[n]
	}
	into := make([]uint32, len(x.edges))
	free := slices.Clone(start)
	for _, e := range x.edges {
		into[free[e.to]] = e.from
		free[e.to]++
	}
	reaches := make([]bool, len(x.parents))
	todo := x.finished
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reaches[n] {
			continue
		}
		reaches[n] = true
		todo = append(todo, into[start[n]:start[n+1]]...)
	}
	for _, n := range x.live {
		if !reaches[n] {
			return n, true
		}
	}
	return 0, false
}
