package model

// Bounds of the arrays that hold a state.
const (
	maxWorkers = 3
	maxEvents  = 7
	maxLog     = 18
	maxLate    = 10
)

// Set is a set of events; event n, counted from 1, is bit n-1.
type Set uint8

// size returns the number of events.
func (s Set) size() (n uint8) {
	for ; s != 0; s &= s - 1 {
		n++
	}
	return n
}

// first returns the n lowest events.
func (s Set) first(n uint8) Set {
	rest := s
	for range n {
		rest &= rest - 1
	}
	return s &^ rest
}

// Kind says what a message of the stream, or a request, is.
type Kind uint8

// The kinds. Watermark and Fence are control records on the partition's fence subject.
const (
	None      Kind = iota // no record yet
	Event                 // an event's message
	Watermark             // closes a batch
	Fence                 // written by a takeover
	Mark                  // a request to the database: delete the rows of these events
)

// Message is a message of the stream.
type Message struct {
	Kind   Kind
	Epoch  uint8 // of the lease that it was written under
	Owner  uint8 // worker 1, 2, …
	Take   uint8 // of a fence: which of its owner's takeovers under that epoch wrote it
	Batch  uint8 // number of the batch since the takeover; a fence copies it
	Events Set   // of an event: itself; of a record: the events that it lists
}

// Stream is the broker's side: one append-only log. The sequence of a message is its index plus one.
type Stream struct {
	Log [maxLog]Message
	Len uint8
}

// Database is the partition's lease row and its pointer rows.
type Database struct {
	Owner, Epoch uint8
	Expired      bool
	Rows         Set  // pointer rows: events not yet marked delivered
	Durable      Set  // pointer rows that a crash of the database would leave behind
	Trespassed   bool // a write under a lost lease has changed something; only the invariant looks at it
}

// Place is where in its program a worker stands: worker.go has one function for each.
type Place uint8

// The places, in the order in which an undisturbed worker passes them.
const (
	Idle       Place = iota // no lease, no memory
	ReadRecord              // takeover: read the last record
	WriteFence              // takeover: write the fence
	MarkRows                // mark what the known record lists
	ClaimRows               // read the first undelivered rows
	FlushClaim              // make durable what the claim has seen
	SendBatch               // publish the claim, in one batch or in several
	ReadBack                // the expectation was refused: find out why
)

// Worker is a worker's place and all that it remembers.
type Worker struct {
	At      Place
	Epoch   uint8   // e: of its lease
	Take    uint8   // how many times it took the partition under this lease
	Known   Message // rec: the last record as far as it knows
	Expect  uint8   // S: that record's sequence
	Batch   uint8   // b: number of its latest batch since the takeover
	Claimed Set     // the claim under way
	Stored  Set     // those of it that earlier batches have stored
	Events  Set     // those in the batch under way
	Aside   Set     // not claimed for now; only a variant does that
}

// Request is a write that the network holds: its sender no longer waits, but the bytes may still arrive.
type Request struct {
	Record Message // the closing watermark, the fence, or the mark
	Events Set     // messages before the record
	Expect uint8   // sequence that the last record must have
	Blind  bool    // without an expectation; only variants send that
}

// State is one partition with its workers and the network between them.
type State struct {
	Database Database
	Stream   Stream
	Workers  [maxWorkers]Worker
	Late     [maxLate]Request // a set; places not in use are zero
}

// hold puts a request into the network. Equal ones are one: they carry the same expectation, so that after one of them
// the other would be refused.
func (s *State) hold(r Request) (fits bool) {
	for i := range s.Late {
		if s.Late[i] == (Request{}) {
			s.Late[i] = r
		}
		if s.Late[i] == r {
			return true
		}
	}
	return false
}

// release takes a request out of the network.
func (s *State) release(place int) Request {
	r := s.Late[place]
	copy(s.Late[place:], s.Late[place+1:])
	s.Late[maxLate-1] = Request{}
	return r
}
