package web

// Filter is the form above a list of messages, as it was sent.
type Filter struct {
	States    []StateChoice
	Partition string
	Stream    string
	Topic     string
	Type      string
	Tenant    string
	ID        string
	Sequence  string
	Error     string
	// Family is the last error as causes are told apart by.
	Family string
	// Since and Until are times, or durations before now.
	Since, Until string
	// Active says that anything but a state is filtered by.
	Active bool
}

// StateChoice is one state to filter by.
type StateChoice struct {
	State  string
	Chosen bool
	// Known says that Count is known: how many messages are in that state, as of the snapshot.
	Known bool
	Count int64
	// Query is the address of the list with this state alone.
	Query string
}

// Field is a name and value that a form carries along.
type Field struct{ Name, Value string }

// Messages is the list of messages.
type Messages struct {
	Shell
	Filter Filter
	// Problem says which filter was refused; then there are no rows.
	Problem string
	Rows    []MessageRow
	// Newer and Older are the addresses of the neighbouring pages, empty at the ends.
	Newer, Older string
	// SearchedTo is the sequence up to which messages were looked at, when the
	// time for that was over before the page was full; 0: it is full, or the last.
	SearchedTo int64
	// SearchOn is the address that goes on behind it, and Upwards says that the search goes from old to new.
	SearchOn string
	Upwards  bool
	// First says that this is the first page, which may follow what happens.
	First bool
	// Missing is the sequence that was asked for and not found; 0: none.
	Missing int64
	// AllState is the one state that everything in the list is in and that can be acted on as a whole; empty: none.
	AllState string
	// Carried are the filters that the form of actions carries along.
	Carried []Field
}

// MessageRow is one line of the list.
type MessageRow struct {
	Sequence  int64
	State     string
	Partition int
	Stream    string
	Topic     string
	Type      string
	Attempts  int
	// At is when the event was recorded.
	At Moment
	// Next is when the message is due; zero when that says nothing.
	Next Moment
	// Settled is when it was published, skipped or discarded.
	Settled        Moment
	StreamSequence int64
	Error          string
}

// Selectable tells whether an operator can act on the message.
func (r MessageRow) Selectable() bool { return r.State == "dead" || r.State == "failed" }

// Message is the page of one message.
type Message struct {
	Shell
	MessageRow
	EventID       string
	StreamVersion int64
	Generation    int
	Tenant        string
	AuditOnly     bool
	Occurred      Moment
	Dead          Moment
	// Known is false when the events relation lacks the event.
	Known bool
	// Explain says in a sentence what the state means for this message.
	Explain string
	// Metadata is what the producer stored beside the payload.
	Metadata []Header
	// Published are the headers that the message is published with.
	Published []Header
	// Failures are the last attempts that failed, the newest first.
	Failures []FailedAttempt
	// Deliveries is the history, the oldest first.
	Deliveries []Delivery
	// BlockedBy leads the stream while this message waits.
	BlockedBy *Neighbour
	// Behind counts what waits behind it; Followers are the first of these.
	Behind    int64
	Followers []Neighbour
	// BehindCapped says that there may be more than Behind.
	BehindCapped bool
	// Actions is what operators did, the newest first.
	Actions []Action
	// Payload is nil unless it is shown. MayPayload says that it may be.
	Payload    *Payload
	MayPayload bool
	// StreamQuery is the address of the list of the stream's messages.
	StreamQuery string
}

// Header is a name and its value.
type Header struct{ Name, Value string }

// Delivery is one time that a message was settled.
type Delivery struct {
	State          string
	At             Moment
	Partition      int
	Epoch          int64
	StreamSequence int64
	Attempts       int
	Generation     int
	Lost           bool
}

// Neighbour is another message of the same stream.
type Neighbour struct {
	Sequence int64
	State    string
}

// Action is what an operator did to a message, and what it was before.
type Action struct {
	At         Moment
	Actor      string
	Action     string
	Reason     string
	Attempts   int
	Generation int
	Error      string
}

// Payload is a body as far as it is shown.
type Payload struct {
	// Kind says what it is: JSON, text or bytes.
	Kind string
	Size int64
	// Text is the body, JSON indented and bytes in hexadecimal.
	Text string
	// Cut says that Text is only its beginning.
	Cut bool
}

// Confirm asks before messages are changed.
type Confirm struct {
	Shell
	// Verb is "requeue", "skip" or "discard".
	Verb string
	// Count is how many would be changed, and Parts says of which states.
	Count int64
	// AtLeast says that they were not counted to the end: Count or more.
	AtLeast bool
	Parts   []string
	// Scope says in words what is selected.
	Scope string
	// Sequences are the first of the selected messages, when they were chosen one by one, and More how many further ones there are.
	Sequences []int64
	More      int
	// Fields are what the form carries along.
	Fields []Field
	// Reason is what was written so far; Required says that there must be one.
	Reason   string
	Required bool
	// Problem says why nothing was done, or not all; Changed is how many were changed before it.
	Problem string
	Changed int64
	// Back is the address of the list.
	Back string
}

// FailedAttempt is an attempt that failed.
type FailedAttempt struct {
	At Moment
	// Worker is empty where one worked without leases.
	Worker, Class, Text string
}
