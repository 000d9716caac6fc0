package model

import "github.com/postrider/postrider/tools/model/search"

// The invariants, in the order in which they are looked at, and Progress, which is about ways and not about single states.
const (
	NoDuplicate = "P4: no event is in the stream twice"
	Ascending   = "P2: first publications ascend"
	OneVoice    = "P3: after a record of epoch e, nothing of a lower epoch is stored"
	NothingLost = "P1: an event without a pointer row is in the stream"
	NoTrespass  = "P3: a write to the database under a lost lease changes nothing"
	Placed      = "what a worker takes for published lies where it thinks"
	Progress    = "while somebody can act, the work can still be finished"
)

// Invariants implements search.System.
func (x *system) Invariants() []search.Invariant[State] {
	return []search.Invariant[State]{
		{Name: NoDuplicate, Holds: noDuplicate},
		{Name: Ascending, Holds: ascending},
		{Name: OneVoice, Holds: oneVoice},
		{Name: NothingLost, Holds: x.nothingLost},
		{Name: NoTrespass, Holds: func(s *State) bool { return !s.Database.Trespassed }},
		{Name: Placed, Holds: placed, Follow: true},
	}
}

func noDuplicate(s *State) bool {
	var seen Set
	for _, m := range s.Stream.messages() {
		if m.Kind == Event {
			if seen&m.Events != 0 {
				return false
			}
			seen |= m.Events
		}
	}
	return true
}

func ascending(s *State) bool {
	var seen Set
	for _, m := range s.Stream.messages() {
		if m.Kind == Event && seen&m.Events == 0 {
			if seen > m.Events {
				return false
			}
			seen |= m.Events
		}
	}
	return true
}

func oneVoice(s *State) bool {
	var highest uint8
	for _, m := range s.Stream.messages() {
		if m.Epoch < highest {
			return false
		}
		if m.Kind != Event {
			highest = m.Epoch
		}
	}
	return true
}

func (x *system) nothingLost(s *State) bool { return x.all()&^s.Database.Rows&^s.Stream.stored() == 0 }

// placed: a worker that is about to mark a claim finds its events in the stream, under its epoch and before the record
// that it takes for the last one. Their positions are part of the published history.
func placed(s *State) bool {
	for _, me := range s.Workers {
		if me.At != MarkRows || me.Known.Kind != Watermark {
			continue
		}
		var lie Set
		for _, m := range s.Stream.messages()[:me.Expect] {
			if m.Kind == Event && m.Epoch == me.Known.Epoch {
				lie |= m.Events
			}
		}
		if me.Known.Events&^lie != 0 {
			return false
		}
	}
	return true
}
