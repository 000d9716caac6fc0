package model

import "github.com/postrider/postrider/tools/model/search"

// The invariants, in the order of their checks, and CanFinish, which concerns ways and not single states.
const (
	NoDuplicate = "P4: no event is in the stream twice"
	InStream    = "P2: the events of one stream ascend"
	Ascending   = "P2: an event is stored behind later ones only if it failed, or was blocked by one that had"
	OneVoice    = "P3: after a record of epoch e, nothing of a lower epoch is stored, nor of another owner"
	NothingLost = "P1: an event that is not in the stream waits, or is parked"
	NoTrespass  = "P3: a write to the database under a lost lease changes nothing"
	Placed      = "what a worker takes for published lies where it thinks"
	Covered     = "what the records up to F name is marked"
	CanFinish   = "while somebody can act, the work can still be finished"
)

// Invariants implements search.System.
func (x *system) Invariants() []search.Invariant[State] {
	return []search.Invariant[State]{
		{Name: NoDuplicate, Holds: noDuplicate},
		{Name: InStream, Holds: inStream},
		{Name: Ascending, Holds: func(s *State) bool { return !s.Disordered }},
		{Name: OneVoice, Holds: oneVoice},
		{Name: NothingLost, Holds: x.nothingLost},
		{Name: NoTrespass, Holds: func(s *State) bool { return !s.Database.Trespassed }},
		{Name: Placed, Holds: placed, Follow: true},
		{Name: Covered, Holds: x.covered, Follow: true},
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

func inStream(s *State) bool {
	var seen Set
	for _, m := range s.Stream.messages() {
		if m.Kind == Event {
			if seen&m.Events.Behind() != 0 {
				return false
			}
			seen |= m.Events
		}
	}
	return true
}

func oneVoice(s *State) bool {
	var highest Message
	for _, m := range s.Stream.messages() {
		if m.Epoch < highest.Epoch || m.Epoch == highest.Epoch && m.Owner != highest.Owner {
			return false
		}
		if m.Kind != Event {
			highest = m
		}
	}
	return true
}

func (x *system) nothingLost(s *State) bool {
	return search.UpTo(x.Events)&^s.Stream.stored()&^s.Database.Partition.waiting()&^s.Database.Parked == 0
}

// placed: events that a worker is about to mark lie in the stream, up to the record that it takes for the last, or in its batch. Their
// position is part of the published history.
func placed(s *State) bool {
	for _, me := range s.Workers {
		if me.At <= WalkRecords {
			continue
		}
		lie := s.Stream.held(max(1, me.Expect))
		for _, m := range s.Stream.messages()[:me.Expect] {
			if m.Kind == Event {
				lie |= m.Events
			}
		}
		if me.Pending&^lie != 0 {
			return false
		}
	}
	return true
}

func (x *system) covered(s *State) bool {
	d := s.Database
	return s.Stream.named(0, d.Fence)&(d.waiting()|d.Parked) == 0
}
