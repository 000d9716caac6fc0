package prefix

// Bounds of the arrays that hold a state.
const (
	maxWorkers = 3
	maxEvents  = 5
	maxLog     = 20
	maxLate    = 10
)

// Set is a set of events; event n, counted from 1, is bit n-1.
type Set uint8

// upTo returns the events 1 to n.
func upTo(n uint8) Set { return 1<<n - 1 }

// only returns event n alone.
func only(n uint8) Set { return 1 << (n - 1) }

// subsets calls use with every subset.
func (s Set) subsets(use func(Set)) {
	for sub := s; ; sub = (sub - 1) & s {
		use(sub)
		if sub == 0 {
			return
		}
	}
}

// Progress says which events of the partition are in the stream: all up to a number, but for holes.
type Progress struct {
	Upto  uint8
	Holes Set
}

// stored returns the events.
func (p Progress) stored() Set { return upTo(p.Upto) &^ p.Holes }

// Kind says what a message of the stream, or a request, is.
type Kind uint8

// The kinds. Watermark and Fence are control records on the partition's fence subject.
const (
	None      Kind = iota // no record yet
	Event                 // an event's message
	Watermark             // closes a batch
	Fence                 // written by a takeover
	Mark                  // a request to the database: move the cursor, park the holes that it passes, drop what was parked and is stored
)

// Message is a message of the stream, or a mark.
type Message struct {
	Kind  Kind
	Epoch uint8 // of the lease that it was written under
	Owner uint8 // worker 1, 2, …
	Take  uint8 // of a fence: which takeover wrote it
	Batch uint8 // number of the batch since the takeover; a fence copies it
	Event uint8 // of an event
	Progress
}

// Stream is the broker's side: one append-only log. The sequence of a message is its index plus one.
type Stream struct {
	Log [maxLog]Message
	Len uint8
}

// Partition is what the database keeps of the partition.
type Partition struct {
	Owner, Epoch uint8
	Delivered    uint8 // the cursor: all up to it is in the stream, or parked
	Parked       Set   // rows that were passed: to be published later
	Ready        Set   // rows that were not reclaimed
}

// Database is the primary, and what a failover or a crash leaves of it.
type Database struct {
	Partition

	Expired    bool
	Standby    Partition
	Trespassed bool // a write under a lost lease has changed something; only the invariant looks at it
}

// Place is where in its program a worker stands.
type Place uint8

// The places, in the order in which an undisturbed worker passes them.
const (
	Idle       Place = iota // no lease, no memory
	ReadRecord              // takeover: read the last record
	WriteFence              // takeover: write the fence
	Settle                  // takeover: mark what the record says, and read what the database has
	Work                    // no batch in the air
	SendBatch               // a batch is in the air
	ReadBack                // its expectation was refused: find out why
)

// Worker is a worker's place and all that it remembers.
type Worker struct {
	At      Place
	Epoch   uint8    // e: of its lease
	Takes   uint8    // how many times it took the partition under this lease
	Take    uint8    // the name of its latest takeover, which no other ever has
	Known   Message  // rec: the last record as far as it knows
	Expect  uint8    // S: that record's sequence
	Batch   uint8    // b: number of its latest batch since the takeover
	Done    Progress // what it takes for stored, and what it has given up for now
	Next    Progress // that of the batch in the air, once it is stored
	Publish Set      // the events of that batch
	Dirty   bool     // Done is not marked yet
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
	Database  Database
	Stream    Stream
	Workers   [maxWorkers]Worker
	Late      [maxLate]Request // a set; places not in use are zero
	Acquired  uint8            // how often the lease was acquired
	Taken     uint8            // how many takeovers there were
	Failovers uint8            // how often the database went back to what the standby has
}

// hold puts a request into the network. Equal ones are one: they carry the same expectation, so that after one of them
// the other would be refused; and marks do the same.
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

// lateMarks is how many marks the network holds.
func (s *State) lateMarks() (n uint8) {
	for _, r := range s.Late {
		if r.Record.Kind == Mark {
			n++
		}
	}
	return n
}

// release takes a request out of the network.
func (s *State) release(place int) Request {
	r := s.Late[place]
	copy(s.Late[place:], s.Late[place+1:])
	s.Late[maxLate-1] = Request{}
	return r
}
