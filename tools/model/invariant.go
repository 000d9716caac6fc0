package model

// Invariant is a promise that every state keeps.
type Invariant struct {
	Name  string
	Holds func(s *State, all Set) bool // all: every event there is
	// Follow: a state that breaks it is followed further, since worse may come of it. The others are the worst.
	Follow bool
}

// Invariants returns all of them, in the order in which they are looked at.
func Invariants() []Invariant {
	return []Invariant{NoDuplicate, Ascending, OneVoice, NothingLost, NoTrespass, Placed}
}

// The invariants, and Progress, which is about ways and not about single states: Explore asks for it if nothing is broken.
var (
	NoDuplicate = Invariant{Name: "P4: no event is in the stream twice", Holds: noDuplicate}
	Ascending   = Invariant{Name: "P2: first publications ascend", Holds: ascending}
	OneVoice    = Invariant{Name: "P3: after a record of epoch e, nothing of a lower epoch is stored", Holds: oneVoice}
	NothingLost = Invariant{Name: "P1: an event without a pointer row is in the stream", Holds: nothingLost}
	NoTrespass  = Invariant{Name: "P3: a write to the database under a lost lease changes nothing", Holds: noTrespass}
	Placed      = Invariant{Name: "what a worker takes for published lies where it thinks", Holds: placed, Follow: true}
	Progress    = Invariant{Name: "while somebody can act, the work can still be finished"}
)

func noDuplicate(s *State, _ Set) bool {
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

func ascending(s *State, _ Set) bool {
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

func oneVoice(s *State, _ Set) bool {
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

func nothingLost(s *State, all Set) bool { return all&^s.Database.Rows&^s.Stream.stored() == 0 }

func noTrespass(s *State, _ Set) bool { return !s.Database.Trespassed }

// placed: a worker that is about to mark a claim finds its events in the stream, under its epoch and before the record
// that it takes for the last one. Their positions are part of the published history.
func placed(s *State, _ Set) bool {
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
