package model

import (
	"errors"
	"fmt"
	"slices"
)

// Config bounds the model. Crashes, pauses, expiries, lost answers, late bytes and stale reads are not bounded: there may
// be any number of them, anywhere.
type Config struct {
	Workers         uint8 // 1 to 3
	Events          uint8 // 1 to 7, in order
	Claim           uint8 // most events in a claim, 1 to 7; a claim is published in one batch or several
	Epochs          uint8 // acquisitions of the lease, 1 to 5
	Takes           uint8 // takeovers under one lease, 1 to 3
	StaleReads      bool  // reads of the last record may return earlier ones
	DatabaseCrashes bool  // the database may crash and lose commits that were not flushed
	Progress        bool  // look for states from which the work cannot be finished; takes memory for every step
	MaxStates       int   // go no further when there are more; 0: no limit
}

// ErrConfig is in every error about a Config.
var ErrConfig = errors.New("model config")

// Validate names the first field that is out of its range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name         string
		value, limit uint8
	}{
		{"Workers", c.Workers, maxWorkers},
		{"Events", c.Events, maxEvents},
		{"Claim", c.Claim, maxEvents},
		{"Epochs", c.Epochs, 5},
		{"Takes", c.Takes, 3},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("%w: %s is %d; it must be 1 to %d", ErrConfig, f.name, f.value, f.limit)
		}
	}
	return nil
}

// all returns every event.
func (c Config) all() Set { return 1<<c.Events - 1 }

// initial is the state in which everything is committed and nobody has begun.
func (c Config) initial() State {
	return State{Database: Database{Rows: c.all(), Durable: c.all()}}
}

// Result is what an exploration found.
type Result struct {
	States    int  // that differ in more than what canon leaves out
	Steps     int  // between them
	Depth     int  // steps from the start to the farthest
	Finished  int  // states in which every event is in the stream and every mark durable
	Truncated bool // something was left out, for MaxStates or for want of room in a state
	Happened  map[Happening]int
	Broken    []Counterexample // at most one for each invariant, and none shorter
}

// Happening is a kind of step, in the words of its Note.
type Happening struct{ Did, Then string }

// Counterexample is a way into a state that breaks an invariant.
type Counterexample struct {
	Invariant Invariant
	Trace     Trace
}

type explorer struct {
	system
	canon    *canon
	visited  map[fingerprint]uint32 // the number of the state, in the order of discovery
	parents  []uint32               // the states from which they were discovered
	next     []State                // discovered and not yet looked at
	from     uint32                 // the state that is being looked at
	steps    int
	edges    []edge // the steps, if Progress is asked for
	live     []uint32
	finished []uint32
	result   Result
}

// Explore visits every state, the nearest first.
func Explore(c Config, p Protocol) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	return newExplorer(c, p).run(), nil
}

func newExplorer(c Config, p Protocol) *explorer {
	x := &explorer{system: system{Config: c, Protocol: p}, canon: newCanon(p), visited: map[fingerprint]uint32{}}
	x.emit = x.discover
	x.result.Happened = map[Happening]int{}
	return x
}

func (x *explorer) run() Result {
	r := &x.result
	x.discover(x.initial(), Note{})
	for ; len(x.next) > 0 && !x.full(); r.Depth++ {
		level := x.next
		x.next = make([]State, 0, len(level))
		for i := range level {
			x.visit(&level[i])
			x.from++
		}
	}
	r.Depth--
	r.States, r.Steps, r.Finished, r.Truncated = len(x.parents), x.steps, len(x.finished), x.truncated
	if x.Progress && !x.truncated && len(r.Broken) == 0 {
		if number, stuck := x.stuck(); stuck {
			r.Broken = append(r.Broken, Counterexample{Progress, x.trace(number)})
		}
	}
	return *r
}

func (x *explorer) full() bool {
	full := x.MaxStates > 0 && len(x.parents) > x.MaxStates
	x.truncated = x.truncated || full
	return full
}

// discover takes a state that a step leads to.
func (x *explorer) discover(s State, note Note) {
	form := x.canon.of(&s)
	number, seen := x.visited[form]
	if !seen {
		number = uint32(len(x.parents)) // memory ends before
		x.visited[form] = number
		x.parents = append(x.parents, x.from)
		x.next = append(x.next, s)
	}
	x.steps++
	x.result.Happened[Happening{note.Did, note.Then}]++
	if x.Progress {
		x.edges = append(x.edges, edge{x.from, number})
	}
}

// visit looks at a state and discovers its successors.
func (x *explorer) visit(s *State) {
	if x.broken(s) {
		return
	}
	if x.isFinished(s) {
		x.finished = append(x.finished, x.from)
	}
	if x.isLive(s) {
		x.live = append(x.live, x.from)
	}
	x.successors(s)
}

// broken keeps the first counterexample of each invariant, and reports whether the state is followed no further.
func (x *explorer) broken(s *State) (broken bool) {
	for _, invariant := range Invariants() {
		if invariant.Holds(s, x.all()) {
			continue
		}
		broken = broken || !invariant.Follow
		if !slices.ContainsFunc(x.result.Broken, func(c Counterexample) bool { return c.Invariant.Name == invariant.Name }) {
			x.result.Broken = append(x.result.Broken, Counterexample{invariant, x.trace(x.from)})
		}
	}
	return broken
}
