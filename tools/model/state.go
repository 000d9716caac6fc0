package model

import "github.com/postrider/postrider/tools/model/search"

// Bounds of the arrays that hold a state.
const (
	maxWorkers = 3
	maxEvents  = 5
	maxLog     = 16
	maxLate    = 10
)

// Set is a set of events.
type Set = search.Set

// Kind is that of a message of the stream, or of a request.
type Kind uint8

// The kinds. Batch, Watermark, Fence and Announcement are control records on the partition's fence subject.
const (
	None         Kind = iota // no record yet; or a message that is stored by itself
	Event                    // an event's message
	Batch                    // begins an atomic batch, and names its events
	Watermark                // closes messages that were stored one by one, and names them
	Fence                    // written by a takeover
	Announcement             // comes before messages that are stored one by one, and names their events
	Mark                     // a request to the database
)

// Message is a message of the stream, or a mark.
type Message struct {
	Kind   Kind
	Epoch  uint8 // of the lease that it was written under
	Owner  uint8 // worker 1, 2, …
	Take   uint8 // of a fence: its takeover
	After  uint8 // of a fence: the position of the announcement that nothing had closed
	Events Set   // of an event: itself; of a record: the named ones; of a mark: the published ones

	// Of a mark:
	Passed  Set      // events to park
	Retried Set      // those of Events claimed while parked
	Upto    uint8    // the position of the last record that it covers
	From    Progress // the marks that it goes on from, see Config.Compare
}

// top returns the highest event that a mark settles.
func (m Message) top() uint8 { return (m.Events | m.Passed).Top() }

// Stream is the broker's side: one append-only log. The sequence of a message is its index plus one.
type Stream struct {
	Log [maxLog]Message
	Len uint8
}

// Progress is the progress of a partition's marks.
type Progress struct {
	Fence uint8 // F: all that the records up to this position name is marked
	Parks uint8 // the number of marks that parked a row
}

// Partition holds the partition's state in the database.
type Partition struct {
	Progress

	Owner, Epoch uint8
	Delivered    uint8 // the cursor: every event up to this one is published, or parked
	Ready        Set   // rows that were neither deleted nor parked
	Parked       Set   // rows that were passed: to be published later
}

// Database is the primary, with the state that survives a crash or failover.
type Database struct {
	Partition

	Expired    bool
	Durable    Partition
	Trespassed bool // a write under a lost lease has changed something; only the invariant looks at it
}

// Place is a worker's place in its program: takeover.go and worker.go have one function for each.
type Place uint8

// The places, in the order in which an undisturbed worker passes them.
const (
	Idle          Place = iota // no lease, no memory
	ReadRecord                 // takeover: read the last record
	WriteFence                 // takeover: write the fence
	MeetAnnounced              // takeover: find announced and stored messages, and close them
	WalkRecords                // takeover: read the records behind F
	MarkRows                   // nothing is claimed before this mark
	ClaimRows                  // no batch is in the air
	SendBatch                  // publish the claim
	ReadBack                   // the expectation was refused: find the reason
	SendSingle                 // publish the next announced message
	CloseSingles               // write the record that names them
	Lost                       // something may be stored that nothing names: the partition has to be taken anew
)

// Worker is a worker's place and all that it remembers.
type Worker struct {
	At      Place
	Epoch   uint8    // e: of its lease
	Takes   uint8    // how many times it took the partition under this lease
	Take    uint8    // the name of its latest takeover, which no other has
	Expect  uint8    // S: the last record's position, as far as it knows
	After   uint8    // the position of the announcement that its takeover has to close
	Publish Set      // the events of the batch in the air
	Sent    Set      // those of Publish stored one by one; of a variant, those it has met
	Retried Set      // those of Publish and Pending that were claimed from the parking place
	Pending Set      // published, and not known to be marked
	Passed  Set      // passed by the latest claim or the walk, and not known to be parked
	Cursor  uint8    // the highest event that it has claimed since the takeover
	Marked  Progress // progress of the marks that it knows; only Config.Compare and a variant need it
	Stale   bool     // marks that it knows of may be gone: it claims and marks nothing before it has taken the partition anew
}

// Request is a write that the network holds: its sender no longer waits, but the bytes may still arrive.
type Request struct {
	Record Message // that of the batch, the closing watermark, the fence, or the mark
	Events Set     // messages behind the record
	Expect uint8   // sequence that the last record must have
	Blind  bool    // without an expectation; only variants send that
}

// State is one partition with its workers and the network between them.
type State struct {
	Database   Database
	Stream     Stream
	Workers    [maxWorkers]Worker
	Late       [maxLate]Request // a set; places not in use are zero
	Acquired   uint8            // number of acquisitions of the lease
	Taken      uint8            // number of takeovers
	Passed     Set              // events not stored yet that a claim has passed; only an invariant looks at it
	Disordered bool             // an event was stored behind later ones though no claim had passed it; likewise
}

// write stores the request, and notes whether the partition's order allows it.
func (s *State) write(r Request) (answer Answer, sequence uint8) {
	before := s.Stream.stored()
	if answer, sequence = s.Stream.write(r); answer == Stored {
		overtaken := r.Events & search.UpTo(max(before.Top(), 1)-1) &^ before
		s.Disordered = s.Disordered || overtaken&^s.Passed != 0
		s.Passed &^= r.Events
	}
	return answer, sequence
}
