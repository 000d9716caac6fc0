package outbox

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// DefaultTopic is the topic of an event that names none.
const DefaultTopic = "default"

// Event is an event to append. Texts are UTF-8, at most 1024 bytes, without control characters.
type Event struct {
	// ID identifies the event everywhere, also at the consumer. Defaults to a new
	// UUIDv7. An ID that exists is refused with ErrDuplicateEvent.
	ID uuid.UUID
	// StreamID names the stream: the aggregate, order or document. Required.
	StreamID string
	// Type names the fact, for example "order.paid". Required.
	Type string
	// Topic is the part of the subject before the type. Defaults to "default".
	Topic string
	// TenantID is stored and can be part of the subject. Optional.
	TenantID string
	// DedupeKey is unique per topic: when it is taken, nothing is written and the first event is returned. Optional.
	DedupeKey string
	// PartitionKey takes the stream id's place in the choice of the partition, so that several streams share one; order between streams takes
	// ordering partition. A stream keeps that of its first event: the database refuses another one. Defaults to the stream's, for a first
	// event to Config.Partitioner's, else the stream id.
	PartitionKey string
	// Payload is the body of the message. nil is stored as an empty body.
	Payload []byte
	// Metadata travels as message headers, as far as the workers' --headers and --forward-header let it.
	Metadata Metadata
	// ExpectedVersion is the version that the stream must have now. Defaults to AnyVersion.
	ExpectedVersion Version
	// OccurredAt dates it, in the years 1 to 9999 (UTC). Defaults to the database's time.
	OccurredAt time.Time
	// AvailableAt keeps the event from being published before that time, in the years 1 to 9999 (UTC); later events of its stream do not overtake it. Defaults to at once.
	AvailableAt time.Time
	// AuditOnly stores the event without publishing it.
	AuditOnly bool
}

// Metadata is an event's origin. The outbox stores its JSON.
type Metadata struct {
	// TraceParent and TraceState are the W3C trace context (https://www.w3.org/TR/trace-context/).
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
	// CorrelationID names the whole conversation, CausationID the cause of this event.
	CorrelationID string `json:"correlation_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
	// Headers are sent as they are: at most 32 KiB and 1000, names of 1..128 token characters (RFC 9110 §5.6.2) no two alike but for case, that do not begin with Nats- or
	// Outbox- and are not Status, Description or KV-Operation in any case, which clients take for the server's, values without line breaks and control characters.
	Headers map[string]string `json:"headers,omitempty"`
}

// Version is an expectation about the version of a stream. The zero value is AnyVersion.
type Version struct {
	number int64
	exact  bool
}

// AnyVersion accepts whatever version the stream has, and waits for other writers of the stream.
var AnyVersion = Version{}

// ExactVersion demands that the stream has this version before the event; 0
// demands a new stream. A negative number is refused with ErrInvalidEvent.
func ExactVersion(n int64) Version { return Version{number: n, exact: true} }

// Exact returns the demanded version, and whether there is one.
func (v Version) Exact() (number int64, ok bool) { return v.number, v.exact }

// Appended is the fate of an event.
type Appended struct {
	// Sequence is the global sequence, of the first event when Duplicate is set.
	Sequence int64
	// EventID is the event's ID; of a Duplicate whose first event was dropped since (`postrider events prune`) it is uuid.Nil.
	EventID uuid.UUID
	// StreamVersion is the event's version in its stream, 1 for the first; 0 where EventID is uuid.Nil.
	StreamVersion int64
	// Partition is the event's queue; without meaning unless Enqueued.
	Partition partition.ID
	// Duplicate: the dedupe key was taken and nothing was written.
	Duplicate bool
	// Enqueued: a pointer row was written.
	Enqueued bool
}
