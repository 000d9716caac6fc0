package ops

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// Message is one message as a list shows it.
type Message struct {
	Sequence      int64
	Partition     partition.ID
	Stream, Topic string
	State         State
	// Attempts counts failures, since the last requeue if there was one.
	Attempts int
	// Generation counts requeues and replays.
	Generation int
	// AvailableAt is the time of its next attempt; nil for settled messages and for those that wait for ever.
	AvailableAt *time.Time
	// DeadAt is set for dead messages alone.
	DeadAt *time.Time
	// PublishedAt is its time of settlement; nil before.
	PublishedAt *time.Time
	// StreamSequence is its place in the stream; nil unless published.
	StreamSequence *int64
	// LastError is empty for settled messages.
	LastError string
	// The following are zero when the events relation lacks the event.
	EventID       uuid.UUID
	Type          string
	StreamVersion int64
	RecordedAt    time.Time
}

// FailedAttempt is an attempt that failed. It has the JSON form in which the outbox keeps it.
type FailedAttempt struct {
	At time.Time `json:"at"`
	// Worker is nil where one worked without leases.
	Worker *uuid.UUID `json:"worker_id"`
	// Class is temporary for causes that may pass until the next attempt, else permanent.
	Class string `json:"class"`
	Text  string `json:"text"`
}

// Detail holds all that is known about one message.
type Detail struct {
	Message
	// Event is nil when the events relation lacks it.
	Event *Event
	// Failures are the last ten attempts that failed, the oldest first, while the message is in the outbox. A requeue leaves them.
	Failures []FailedAttempt
	// Deliveries holds its history, the oldest first. A message has more than one after a replay.
	Deliveries []Delivery
	// BlockedBy leads the stream while this message waits behind it.
	BlockedBy *Neighbour
	// Behind counts the messages of the stream that wait behind this one, up to MaxBehind, and Next are the first of them. BehindMore
	// says that there may be more: in a stream with more than 2,000 events only parked messages and those among the partition's next
	// 3,000 rows count.
	Behind     int64
	BehindMore bool
	Next       []Neighbour
	// Actions lists the operators' actions on the message, the newest first, as far as the audit goes and this role may read it. Each
	// keeps the error that there was before it.
	Actions []MessageAction
}

// MaxBehind bounds the count of waiting messages.
const MaxBehind = 10_000

// Event is the producer's event, without its payload.
type Event struct {
	TenantID string
	// OccurredAt is nil when the relation has no such column.
	OccurredAt *time.Time
	AuditOnly  bool
	// Metadata is the JSON object that was stored: trace context, correlation and causation id, headers. nil: none.
	Metadata json.RawMessage
}

// Delivery is one time that a message was settled.
type Delivery struct {
	// State is Published, Skipped or Discarded.
	State          State
	Partition      partition.ID
	Epoch          int64
	PublishedAt    time.Time
	StreamSequence *int64
	Attempts       int
	Generation     int
	// Lost: the stream lost it after acknowledging, and it was queued again.
	Lost bool
}

// MessageAction is an operator's action on a message.
type MessageAction struct {
	// ID, At, Actor, Action and Reason are those of the AuditEntry.
	ID     int64
	At     time.Time
	Actor  string
	Action string
	Reason string
	// Attempts, Generation and LastError are the message's before the action.
	Attempts   int
	Generation int
	LastError  string
}

// Neighbour is another message of the same stream.
type Neighbour struct {
	Sequence int64
	State    State
}
