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
	// Family is the last error in the form that identifies a cause.
	Family string
	// Since and Until are times, or durations before now.
	Since, Until string
	// Active says that the filter has more than a state.
	Active bool
}

// StateChoice is one state of the filter.
type StateChoice struct {
	State  string
	Chosen bool
	// Known says that Count is known: the snapshot's number of messages in that state.
	Known bool
	Count int64
	// Query is the address of the list with this state alone.
	Query string
}

// Field is a hidden name and value of a form.
type Field struct{ Name, Value string }

// Messages is the list of messages.
type Messages struct {
	Shell
	Filter Filter
	// Problem names the refused filter; then there are no rows.
	Problem string
	Rows    []MessageRow
	// Newer and Older are the addresses of the neighbouring pages, empty at the ends.
	Newer, Older string
	// SearchedTo is the sequence at which a timeout ended the search before the page was full; 0: it is full, or the
	// last.
	SearchedTo int64
	// SearchOn is the address that continues the search, and Upwards says that it goes from old to new.
	SearchOn string
	Upwards  bool
	// First says that this is the first page, which may update itself.
	First bool
	// Missing is the requested sequence that was not found; 0: none.
	Missing int64
	// AllState is the state of all listed messages, if an action can take them as a whole; empty: none.
	AllState string
	// Carried are the filters as hidden fields of the form of actions.
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
	// At is the time of the event's recording.
	At Moment
	// Next is the time at which the message is due; zero: none.
	Next Moment
	// Settled is the time at which it was published, skipped or discarded.
	Settled        Moment
	StreamSequence int64
	Error          string
}

// Selectable reports whether an operator can act on the message.
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
	// Explain describes the state of this message in a sentence.
	Explain string
	// Metadata holds the producer's data beside the payload.
	Metadata []Header
	// Published are the headers of the published message.
	Published []Header
	// Failures are the last attempts that failed, the newest first.
	Failures []FailedAttempt
	// Deliveries is the history, the oldest first.
	Deliveries []Delivery
	// BlockedBy leads the stream while this message waits.
	BlockedBy *Neighbour
	// Behind counts the messages that wait behind it; Followers are the first of these.
	Behind    int64
	Followers []Neighbour
	// BehindCapped says that there may be more than Behind.
	BehindCapped bool
	// Actions are the acts of operators, the newest first.
	Actions []Action
	// Payload is nil unless it is shown. MayPayload says that the visitor may see it.
	Payload    *Payload
	MayPayload bool
	// StreamQuery is the address of the list of the stream's messages.
	StreamQuery string
}

// Header is a name and its value.
type Header struct{ Name, Value string }

// Delivery is one settlement of a message.
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

// Action is an operator's act on a message, with the state before it.
type Action struct {
	At         Moment
	Actor      string
	Action     string
	Reason     string
	Attempts   int
	Generation int
	Error      string
}

// Payload is the shown part of a body.
type Payload struct {
	// Kind is JSON, text or bytes.
	Kind string
	Size int64
	// Text is the body, JSON indented and bytes in hexadecimal.
	Text string
	// Cut says that Text is only the body's beginning.
	Cut bool
}

// Confirm asks before messages are changed.
type Confirm struct {
	Shell
	// Verb is "requeue", "skip" or "discard".
	Verb string
	// Count is the number of messages to change, Parts that of each state.
	Count int64
	// AtLeast says that the count ended early: Count or more.
	AtLeast bool
	Parts   []string
	// Scope describes the selection.
	Scope string
	// Sequences are the first of the messages selected one by one, More the number of further ones.
	Sequences []int64
	More      int
	// Fields are the form's hidden fields.
	Fields []Field
	// Reason is the text so far; Required says that it must not be empty.
	Reason   string
	Required bool
	// Problem says why the action failed, in whole or part; Changed counts the messages changed before.
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
