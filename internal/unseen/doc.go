// Package unseen reads the messages of a stream that NATS clients keep to themselves.
//
// # Model
//
// nats.go takes a message without payload that has a header Status for an answer of the server: it ends the subscription, or drops the
// message. Such messages are refused where events are appended and published, but a stream may hold some. A reader whose subscription
// failed or stands still asks whether the next message is one of them, and for the position of the last one.
//
// # Invariants
//
// Nothing is removed or acknowledged. The stream's leader is asked.
//
// # Failures
//
// An error means that nothing is known of the next or last message.
package unseen
