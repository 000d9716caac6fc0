package walk

import "github.com/postrider/postrider/tools/model/search"

// The invariants, in the order of their checks, and CanFinish, which concerns ways and not single states.
const (
	NoDuplicate = "P4: no event is in the stream twice"
	InStream    = "P2: the events of one stream ascend"
	Ascending   = "P2: an event is stored behind later ones only if it failed, or was blocked by one that had"
	OneVoice    = "P3: after a record of epoch e, nothing of a lower epoch is stored, nor of another owner"
	NothingLost = "P1: an event that is not in the stream waits, or is parked; or the history has it, and the loss is known or will be seen"
	Placed      = "what a worker takes for published lies where it thinks"
	Covered     = "what lies up to the row's position is marked"
	CanFinish   = "while the lease can be acquired, the work can still be finished"
)

// Invariants implements search.System.
func (x *system) Invariants() []search.Invariant[State] {
	return []search.Invariant[State]{
		{Name: NoDuplicate, Holds: noDuplicate},
		{Name: InStream, Holds: inStream},
		{Name: Ascending, Holds: func(s *State) bool { return !s.Disordered }},
		{Name: OneVoice, Holds: oneVoice},
		{Name: NothingLost, Holds: x.nothingLost},
		{Name: Placed, Holds: placed, Follow: true},
		{Name: Covered, Holds: covered, Follow: true},
	}
}

func noDuplicate(s *State) bool {
	var seen Set
	for _, m := range s.Stream.Log[:s.Stream.Len] {
		if m.Event == 0 {
			continue
		}
		if seen&search.Only(m.Event) != 0 {
			return false
		}
		seen |= search.Only(m.Event)
	}
	return true
}

func inStream(s *State) bool {
	var seen Set
	for _, m := range s.Stream.Log[:s.Stream.Len] {
		if m.Event == 0 {
			continue
		}
		if seen&search.Only(m.Event).Behind() != 0 {
			return false
		}
		seen |= search.Only(m.Event)
	}
	return true
}

func oneVoice(s *State) bool {
	var highest Message
	for _, m := range s.Stream.Log[:s.Stream.Len] {
		if m.Epoch < highest.Epoch || m.Epoch == highest.Epoch && m.Owner != highest.Owner {
			return false
		}
		if m.Event == 0 {
			highest = m
		}
	}
	return true
}

func (x *system) nothingLost(s *State) bool {
	d := &s.Database.Row
	known := s.Stream.stored() | d.Ready | d.Parked
	for n, at := range d.At {
		if at > 0 && (!s.Stream.holds(d.Position, d.Last) || d.Stands && at > d.Kept) {
			known |= search.Only(uint8(n + 1))
		}
	}
	return known == search.UpTo(x.Events)
}

// placed looks only at streams that lost nothing: an owner learns of a loss later.
func placed(s *State) bool {
	for _, me := range s.Workers {
		holds := true
		(me.Pending &^ me.Asked.Events).Each(func(n uint8) {
			at := me.Where[n-1]
			holds = holds && at > 0 && s.Stream.holds(at, Message{Event: n})
		})
		if !holds && s.Losses == 0 {
			return false
		}
	}
	return true
}

func covered(s *State) bool {
	d := s.Database
	marked, _ := s.Stream.found(0, d.Position)
	return s.Losses > 0 || marked&(d.Ready|d.Parked) == 0
}
