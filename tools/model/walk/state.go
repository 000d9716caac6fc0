package walk

import "github.com/postrider/postrider/tools/model/search"

// Bounds of the arrays that hold a state.
const (
	maxWorkers = 3
	maxEvents  = 4
	maxLog     = 16
	maxLate    = 8
)

// Set is a set of events.
type Set = search.Set

// Message is a message of the stream: an event's, or a record of the partition.
type Message struct {
	Event uint8 // 0: a record, which a takeover writes
	Epoch uint8 // of the lease that it was written under
	Owner uint8 // worker 1, 2, …
	Take  uint8 // its takeover
}

// Stream is the broker's side: one append-only log. The sequence of a message is its index plus one.
type Stream struct {
	Life uint8 // raised where it is made anew
	Log  [maxLog]Message
	Len  uint8
}

// Row holds the partition's state in the database.
type Row struct {
	Owner, Epoch uint8 // the lease

	Take  uint8 // the row's fence: a name that is new with every takeover
	Marks uint8 // number of marks of that takeover

	Position uint8   // events up to here are marked
	Last     Message // the message at the position

	Stands bool  // the stream has lost messages, and nothing is published until they are queued again
	Kept   uint8 // the last position that was not lost

	Ready  Set              // rows that wait
	Parked Set              // rows that failed: to be published later
	At     [maxEvents]uint8 // the history: positions of published events
}

// Database is the primary, with the state that survives a crash or failover.
type Database struct {
	Row

	Expired bool
	Durable Row
}

// Place names the next step of a worker's program.
type Place uint8

// The places, in the order in which an undisturbed worker passes them.
const (
	Idle        Place = iota // no lease, no memory
	TakeRow                  // takeover: write a new name into the row
	ReadRecord               // takeover: read the last record
	WriteRecord              // takeover: write the own one
	WalkStream               // takeover: read from the row's position to the own record
	Stand                    // the stream has lost messages: wait for the job
	MarkRows                 // nothing is claimed before this mark
	ClaimRows                // nothing is in the air
	Publish                  // one event, or an atomic batch of some
)

// Mark is a request to the database.
type Mark struct {
	Take, Number uint8   // its name: the takeover, and its number of earlier marks
	Events       Set     // published
	Failed       Set     // to be parked
	Upto         uint8   // all up to this position is in this mark or an earlier one
	Last         Message // the message there
	At           [maxEvents]uint8
}

// Worker is a worker's place and all that it remembers.
type Worker struct {
	At      Place
	Epoch   uint8   // of its lease
	Takes   uint8   // number of takeovers under this lease
	Take    uint8   // the name of its latest takeover
	Marks   uint8   // number of that takeover's marks, as far as it knows
	From    uint8   // the row's position
	Known   Message // the message there
	Life    uint8   // of the stream that it writes to, see Protocol.LifeInSubject
	Expect  uint8   // K: its record's position, or for WriteRecord the one before
	Claimed Set     // in the air
	Retried Set     // those of Claimed and Pending that were parked
	Pending Set     // published, and not known to be marked
	Failed  Set     // failed or blocked, and not known to be parked
	Upto    uint8   // position of the last acknowledged message
	Last    Message // that message
	Where   [maxEvents]uint8
	Asked   Mark // a mark without an answer; zero: none
}

// Request is a write that the network holds: its sender no longer waits, but the bytes may still arrive.
type Request struct {
	By     Message // epoch, owner and takeover of the writer
	Events Set     // none: it is a record
	Life   uint8   // of the stream whose record is expected, see Protocol.LifeInSubject
	Expect uint8   // sequence that the last record must have
	Blind  bool    // without an expectation; only variants send that
	Mark   Mark    // a mark, if it has a name
}

// State is one partition with its workers and the network between them.
type State struct {
	Database   Database
	Stream     Stream
	Workers    [maxWorkers]Worker
	Late       [maxLate]Request // a set; places not in use are zero
	Acquired   uint8            // number of acquisitions of the lease
	Taken      uint8            // the last name of a takeover
	Losses     uint8            // number of losses of the stream
	Passed     Set              // events not stored yet that a claim has passed; only an invariant looks at it
	Disordered bool             // an event was stored behind later ones though no claim had passed it; likewise
}

// write stores the request, and notes whether the partition's order allows it.
func (x *system) write(s *State, r Request) (answer Answer, sequence uint8) {
	before := s.Stream.stored()
	if answer, sequence = x.store(&s.Stream, r); answer == Stored {
		overtaken := r.Events & search.UpTo(max(before.Top(), 1)-1) &^ before
		s.Disordered = s.Disordered || overtaken&^s.Passed != 0
		if x.Losses == 0 { // else it may be lost, and come again
			s.Passed &^= r.Events
		}
	}
	return answer, sequence
}
