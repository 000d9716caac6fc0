package search

import (
	"hash/maphash"
	"slices"
)

// System is the searched system. A state is a value; each possible happening is a step.
type System[S any, N Note] interface {
	Initial() S
	// Successors emits every state that one step leads to. truncated: a step did not fit into the bounds and was left out.
	Successors(s *S, emit func(S, N)) (truncated bool)
	// Key appends the state's identity. States with the same key count as one.
	Key(s *S, key []byte) []byte
	Invariants() []Invariant[S]
	// Finished: nothing is left to do.
	Finished(s *S) bool
	// Live: somebody can act, so that a finished state must be within reach.
	Live(s *S) bool
}

// Note describes a step.
type Note interface{ Happening() Happening }

// Happening is a kind of step, in the words of its note.
type Happening struct{ Did, Then string }

// Invariant is a promise that every state keeps.
type Invariant[S any] struct {
	Name  string
	Holds func(s *S) bool
	// Follow: the search goes on behind a state that breaks it, since worse may follow. The others are the worst.
	Follow bool
}

// Options bound a search.
type Options struct {
	Progress  string // if not empty: find live states that reach no finished one, under this name; takes memory for every step
	MaxStates int    // the search ends beyond it; 0: no limit
}

// Result holds the findings of a search.
type Result[S any, N Note] struct {
	States    int  // states with different keys
	Steps     int  // between them
	Depth     int  // steps from the start to the farthest
	Finished  int  // states without work
	Truncated bool // steps were left out, for MaxStates or for want of room in a state
	Happened  map[Happening]int
	Broken    []Counterexample[S, N] // at most one for each invariant, and none shorter
}

// Counterexample is a way into a state that breaks an invariant.
type Counterexample[S any, N Note] struct {
	Invariant string
	Trace     []Step[S, N]
}

// Step is a note and the state after it.
type Step[S any, N Note] struct {
	Note  N
	State S
}

// fingerprint stands for a state among the visited ones: 128 bits of its key. Among ten million states two share one with
// a probability of about 10⁻²⁵.
type fingerprint [2]uint64

// edge is a step between two numbered states.
type edge struct{ from, to uint32 }

type explorer[S any, N Note] struct {
	System[S, N]
	Options

	invariants []Invariant[S]
	seeds      [2]maphash.Seed
	key        []byte
	visited    map[fingerprint]uint32 // the number of the state, in the order of discovery
	parents    []uint32               // the states from which they were discovered
	next       []S                    // discovered and not yet visited
	from       uint32                 // the present state
	edges      []edge                 // the steps, if Progress is asked for
	live       []uint32
	finished   []uint32
	result     Result[S, N]
}

// Run visits every state, the nearest first.
func Run[S any, N Note](system System[S, N], options Options) Result[S, N] {
	x := &explorer[S, N]{
		System: system, Options: options, invariants: system.Invariants(), visited: map[fingerprint]uint32{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	x.result.Happened = map[Happening]int{}
	r := &x.result
	var none N
	x.discover(system.Initial(), none)
	for ; len(x.next) > 0 && !x.full(); r.Depth++ {
		level := x.next
		x.next = make([]S, 0, len(level))
		for i := range level {
			x.visit(&level[i])
			x.from++
		}
	}
	r.Depth--
	r.States, r.Finished = len(x.parents), len(x.finished)
	if x.Progress != "" && !r.Truncated && len(r.Broken) == 0 {
		if number, stuck := x.stuck(); stuck {
			r.Broken = append(r.Broken, Counterexample[S, N]{x.Progress, x.trace(number)})
		}
	}
	return *r
}

func (x *explorer[S, N]) full() bool {
	full := x.MaxStates > 0 && len(x.parents) > x.MaxStates
	x.result.Truncated = x.result.Truncated || full
	return full
}

func (x *explorer[S, N]) print(s *S) fingerprint {
	x.key = x.Key(s, x.key[:0])
	return fingerprint{maphash.Bytes(x.seeds[0], x.key), maphash.Bytes(x.seeds[1], x.key)}
}

// discover takes a state that a step leads to.
func (x *explorer[S, N]) discover(s S, note N) {
	form := x.print(&s)
	number, seen := x.visited[form]
	if !seen {
		number = uint32(len(x.parents)) // memory ends before
		x.visited[form] = number
		x.parents = append(x.parents, x.from)
		x.next = append(x.next, s)
	}
	x.result.Steps++
	x.result.Happened[note.Happening()]++
	if x.Progress != "" {
		x.edges = append(x.edges, edge{x.from, number})
	}
}

// visit looks at a state and discovers its successors.
func (x *explorer[S, N]) visit(s *S) {
	if x.broken(s) {
		return
	}
	if x.Finished(s) {
		x.finished = append(x.finished, x.from)
	}
	if x.Live(s) {
		x.live = append(x.live, x.from)
	}
	truncated := x.Successors(s, x.discover)
	x.result.Truncated = x.result.Truncated || truncated
}

// broken keeps the first counterexample of each invariant, and reports whether the state is followed no further.
func (x *explorer[S, N]) broken(s *S) (broken bool) {
	for _, invariant := range x.invariants {
		if invariant.Holds(s) {
			continue
		}
		broken = broken || !invariant.Follow
		if !slices.ContainsFunc(x.result.Broken, func(c Counterexample[S, N]) bool { return c.Invariant == invariant.Name }) {
			x.result.Broken = append(x.result.Broken, Counterexample[S, N]{invariant.Name, x.trace(x.from)})
		}
	}
	return broken
}

// trace finds the way to a numbered state again. Successors are computed anew, so that every part of a state keeps its
// name; the visited states only say which way to go.
func (x *explorer[S, N]) trace(number uint32) (t []Step[S, N]) {
	var path []uint32
	for n := number; n != 0; n = x.parents[n] {
		path = append(path, n)
	}
	slices.Reverse(path)
	s := x.Initial()
	for _, wanted := range path {
		found := false
		var step Step[S, N]
		x.Successors(&s, func(n S, note N) {
			if known, seen := x.visited[x.print(&n)]; !found && seen && known == wanted {
				found, step = true, Step[S, N]{note, n}
			}
		})
		if !found {
			panic("search: two states with the same key have different successors")
		}
		t = append(t, step)
		s = step.State
	}
	return t
}

// stuck looks for a live state from which no finished one can be reached, the nearest one.
func (x *explorer[S, N]) stuck() (number uint32, found bool) {
	// Sort the steps by target: into[start[n]:start[n+1]] come from the predecessors of n.
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
