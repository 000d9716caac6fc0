package prefix

import "github.com/postrider/postrider/tools/model/search"

// The invariants, in the order in which they are looked at, and Progress, which is about ways and not about single states.
const (
	NoDuplicate = "P4: no event is in the stream twice"
	Ascending   = "P2: an event is stored behind those before it, but for holes that a record has named"
	OneVoice    = "P3: after a record of epoch e, nothing of a lower epoch is stored"
	NothingLost = "P1: an event that is not in the stream is ready above the cursor, or parked"
	NoTrespass  = "P3: a write to the database under a lost lease changes nothing"
	Placed      = "what a worker takes for stored is in the stream"
	CanFinish   = "while somebody can act, the work can still be finished"
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
			if seen&only(m.Event) != 0 {
				return false
			}
			seen |= only(m.Event)
		}
	}
	return true
}

func ascending(s *State) bool {
	var seen, holes Set
	for _, m := range s.Stream.messages() {
		if m.Kind != Event {
			holes |= m.Holes
			continue
		}
		if behind := ^upTo(m.Event) & seen; behind != 0 && holes&only(m.Event) == 0 {
			return false
		}
		seen |= only(m.Event)
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

func (x *system) nothingLost(s *State) bool {
	d := s.Database
	return upTo(x.Events)&^s.Stream.stored()&^d.Parked&^(d.Ready&^upTo(d.Delivered)) == 0
}

func placed(s *State) bool {
	stored := s.Stream.stored()
	for _, me := range s.Workers {
		if me.At >= Work && me.Done.stored()&^stored != 0 {
			return false
		}
	}
	return true
}

// Finished implements search.System: every event is in the stream, and nothing is left to be done that a failover could bring back.
func (x *system) Finished(s *State) bool {
	p := s.Database.Standby
	return s.Stream.stored() == upTo(x.Events) && p.Delivered == x.Events && p.Parked == 0
}

// Live implements search.System: the lease can be acquired once more, or its holder is there.
func (x *system) Live(s *State) bool {
	for w, me := range s.Workers {
		if me.At != Idle && s.Database.holds(owner(uint8(w)), me.Epoch) {
			return true
		}
	}
	return s.Acquired < x.Acquisitions
}
