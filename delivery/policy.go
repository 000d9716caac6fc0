package delivery

import "fmt"

// Ordering is what first publications keep in order.
type Ordering string

// The orderings.
const (
	// OrderPartition: within a partition, by global sequence. Nothing is
	// published before every lower sequence is decided.
	OrderPartition Ordering = "partition"
	// OrderStream: within a stream, by global sequence, without waiting for
	// writers of other streams.
	OrderStream Ordering = "stream"
)

// Lost is what is done about acknowledged messages that the stream lost.
type Lost string

// The kinds of dealing with lost messages.
const (
	// LostRepublish publishes them again, from the history of deliveries.
	LostRepublish Lost = "republish"
	// LostReport only reports them, at every takeover.
	LostReport Lost = "report"
)

// FailurePolicy is what waits behind a message that failed by its own fault.
type FailurePolicy string

// The policies. Empty is BehindStream.
const (
	// BehindStream: its stream waits, also behind a dead one, until a person acts.
	BehindStream FailurePolicy = "stream"
	// BehindRetries: its stream waits while it is tried again, and passes it when it is dead.
	BehindRetries FailurePolicy = "retries"
	// BehindNone: nothing waits.
	BehindNone FailurePolicy = "none"
)

// Validate refuses unknown policies, by name.
func (p FailurePolicy) Validate() error {
	switch p {
	case BehindStream, BehindRetries, BehindNone:
		return nil
	}
	return fmt.Errorf("%w: Failure must be stream, retries or none, got %q", ErrConfig, p)
}

func (p FailurePolicy) passes() bool { return p == BehindNone }

// skipsDead tells whether dead messages hold up nothing.
func (p FailurePolicy) skipsDead() bool { return p == BehindRetries }
