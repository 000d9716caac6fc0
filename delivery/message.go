package delivery

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Pointer is a row of the outbox as a claim reads it.
type Pointer struct {
	Partition  partition.ID
	Sequence   int64
	Generation int
	// Era is added to the generation that consumers see: it rises when the database turns out to have forgotten what was published.
	Era int
	// Attempts counts the failed deliveries so far.
	Attempts int
	Stream   string
	Topic    string
	// Parked: the row lies in outbox_parked. Blocked: an earlier
	// row of its stream does, so that it must not be published now.
	Parked  bool
	Blocked bool
	// NotDue: the row's time has not come.
	NotDue bool
	// ScheduledFor is the time before which it must not be published; zero: none was
	// given.
	ScheduledFor time.Time
}

// Event is the event behind a pointer, as the events relation holds it.
type Event struct {
	Sequence      int64
	ID            uuid.UUID
	StreamVersion int64
	Type          string
	Payload       []byte
	// Size is the payload's length; Payload is nil when Size was above the
	// limit of the rehydration.
	Size        int64
	TraceParent string
	TraceState  string
	// CorrelationID names the whole conversation, CausationID what led to the event; empty where the producer stored none.
	CorrelationID, CausationID string
	// Headers are the producer's own, as the metadata holds them.
	Headers   map[string]string
	TenantID  string
	AuditOnly bool
	// OccurredAt is the producer's time of the event; RecordedAt is the time of its INSERT, and stands for the former where
	// the relation has no column occurred_at of type timestamptz. They are zero for NULL and infinity.
	OccurredAt, RecordedAt time.Time
	// Unreadable says why the event cannot be published, when its row is unfit.
	Unreadable error
}

// Clone returns a copy that shares no memory with the rest of its batch, for one
// that outlives it.
func (e *Event) Clone() *Event {
	c := *e
	c.Type, c.TenantID = strings.Clone(e.Type), strings.Clone(e.TenantID)
	c.TraceParent, c.TraceState = strings.Clone(e.TraceParent), strings.Clone(e.TraceState)
	c.CorrelationID, c.CausationID = strings.Clone(e.CorrelationID), strings.Clone(e.CausationID)
	c.Payload = bytes.Clone(e.Payload)
	return &c
}

// WithoutPayload returns a copy that does not hold the payload, only its size.
func (e *Event) WithoutPayload() *Event {
	c := *e
	c.Payload = nil
	return &c
}

// Message is a claimed pointer with its event; Event is nil when there is none.
type Message struct {
	Pointer
	Event *Event
}

// Wanted is from when on the message should have been published.
func (m Message) Wanted() time.Time {
	if m.ScheduledFor.After(m.Event.RecordedAt) {
		return m.ScheduledFor
	}
	return m.Event.RecordedAt
}

// Batch is the work of one partition under one lease, ascending by sequence.
type Batch struct {
	Lease    *lease.Lease
	Session  Session // of the publisher that took the partition
	Messages []Message
	// More: the claim was cut by its limit.
	More bool
	// Policy chooses the messages that wait for a failed one.
	Policy FailurePolicy
	// Server is the start time of the database server that gave it out.
	Server time.Time
}

// Kind is the kind of an Outcome.
type Kind uint8

// The kinds of outcomes.
const (
	// Unresolved messages stay as they are: the broker was away, the
	// acknowledgement is unknown, or the lease ended. No attempt is counted.
	Unresolved Kind = iota
	// Published messages were acknowledged by the stream.
	Published
	// Skipped events are audit-only: nothing is published, the row is done.
	Skipped
	// Retry messages failed by their own fault; an attempt is counted.
	Retry
	// Permanent messages failed by their own fault and cannot succeed.
	Permanent
	// Behind messages wait for an earlier message of their stream.
	Behind
	// Scheduled messages wait for their time.
	Scheduled
)

// Outcome is the result of one message's delivery.
type Outcome struct {
	Kind Kind
	// StreamSequence is the message's position in the stream, when Published.
	StreamSequence uint64
	// FenceSequence is the position of the record that names the message, when Published.
	FenceSequence uint64
	// Duplicate: the stream of a shadow replay already held the message.
	Duplicate bool
	// Err says why, for Retry, Permanent and Unresolved.
	Err error
}

// Result is a batch with the outcome of each of its messages.
type Result struct {
	Batch    Batch
	Outcomes []Outcome
	// Revision is the number that the partition's row has before the mark, see Taken.
	Revision int64
}

// ErrEventMissing is the failure of a pointer whose event cannot be found. It
// is the message's own fault and may heal, so it is retried.
var ErrEventMissing = errors.New("event not found")

// ErrPayloadTooLarge is the failure of an event whose payload exceeds a limit.
var ErrPayloadTooLarge = errors.New("payload too large")

// ErrEventUnreadable is the failure of an event whose row lacks a value or holds
// one that cannot be published.
var ErrEventUnreadable = errors.New("event cannot be read")

// reasonLimit bounds last_error, in bytes: errors may quote data.
const reasonLimit = 1000

// Reason is the text of a failure as tables keep it: at most 1000 bytes, of what PostgreSQL's text can hold.
func Reason(err error) string {
	if err == nil {
		return "unknown failure"
	}
	text := []rune(err.Error())
	for len(string(text)) > reasonLimit {
		text = text[:len(text)-max(1, (len(string(text))-reasonLimit)/4)]
	}
	for i, r := range text {
		if r == 0 { // PostgreSQL's text holds everything but this
			text[i] = ' '
		}
	}
	return string(text)
}
