package message

import "github.com/postrider/postrider/message/codec"

// HeaderRule describes a header for descriptions of the wire format.
type HeaderRule struct {
	Name string
	// Always: no message is without it.
	Always bool
	// Pattern is a regular expression that values match, of a kind that ECMA-262 reads; empty for none.
	Pattern string
	// Says describes the value, and when the header is there.
	Says string
}

const (
	natural  = `^[1-9][0-9]*$`
	dateTime = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?Z$`
	anUUID   = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
)

// Headers returns all headers that the relay itself writes. Producers may have added others.
func Headers() []HeaderRule {
	return []HeaderRule{
		{HeaderEventID, true, anUUID, "The event's identity."},
		{HeaderSequence, true, natural, "The event's sequence in the producer's database."},
		{HeaderPartition, true, `^[0-9]+$`, "The partition within which messages are in order."},
		{HeaderStream, true, `.`, "The stream within which messages are in order."},
		{HeaderStreamVersion, true, natural, "The event's place in its stream, from 1."},
		{HeaderType, true, `.`, "The event's type."},
		{HeaderGeneration, false, natural, "Above 0 where the event was requeued or replayed, or came after a resize."},
		{HeaderEpoch, false, natural, "The lease under which a message of an earlier release was published."},
		{"Nats-Msg-Id", false, "", "What the stream of a shadow replay drops repeats by."},
		{"Nats-Batch-Id", false, "", "The atomic batch that the message came with."},
		{"Nats-Batch-Sequence", false, natural, "The message's place in its batch."},
		{"Nats-Batch-Commit", false, natural, "The message is the last one of its batch."},
		{"Nats-Expected-Stream", false, "", "The stream that a message which came by itself was stored in."},
		{"Nats-Expected-Last-Subject-Sequence", false, natural, "The record behind which it was stored."},
		{"Nats-Expected-Last-Subject-Sequence-Subject", false, `.`, "Where that record lies."},
		{HeaderRecordedAt, false, dateTime, "When the event was recorded, where workers run with --headers full."},
		{HeaderCorrelationID, false, "", "Names the whole conversation, where the producer says so."},
		{HeaderCausationID, false, "", "What led to the event, where the producer says so."},
		{HeaderTraceParent, false, "", "The trace context of W3C, where the producer stored one."},
		{HeaderTraceState, false, "", "The trace context of W3C, where the producer stored one."},
		{codec.Header, false, "", "How the body is compressed, where workers run with --compress and it became shorter."},
		{HeaderCESpecVersion, false, `^1[.]0$`, "CloudEvents, where workers run with --cloudevents: the version of the specification."},
		{HeaderCEID, false, anUUID, "CloudEvents: the event's identity."},
		{HeaderCESource, false, `.`, "CloudEvents: where the event comes from."},
		{HeaderCEType, false, `.`, "CloudEvents: the event's type."},
		{HeaderCESubject, false, `.`, "CloudEvents: the event's stream."},
		{HeaderCETime, false, dateTime, "CloudEvents: when it happened."},
		{HeaderCEDataContentType, false, `.`, "CloudEvents: the content type of the body."},
		{HeaderCEDataSchema, false, `.`, "CloudEvents: a URI of the schema of the body, where the producer gives one."},
		{HeaderCEPartitionKey, false, `.`, "CloudEvents: the event's stream."},
		{HeaderCESequence, false, `^[0-9]+$`, "CloudEvents: the event's sequence, in a form that sorts as text."},
		{HeaderCECorrelationID, false, "", "CloudEvents: the conversation."},
		{HeaderCECausationID, false, "", "CloudEvents: what led to the event."},
	}
}
