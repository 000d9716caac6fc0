package delivery

import (
	"errors"
	"fmt"
)

// Ordering is the order of first publications.
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

// Lost is the answer to acknowledged messages that the stream lost.
type Lost string

// The kinds of dealing with lost messages.
const (
	// LostRepublish publishes them again, from the history of deliveries.
	LostRepublish Lost = "republish"
	// LostReport only reports them, at every takeover.
	LostReport Lost = "report"
)

// FailurePolicy chooses the messages that wait behind one that failed by its own fault.
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

// Passes says that messages go past failed ones.
func (p FailurePolicy) Passes() bool { return p == BehindNone }

// SkipsDead says that dead messages hold up nothing.
func (p FailurePolicy) SkipsDead() bool { return p == BehindRetries }

// DefaultMaxPayload is the most of a message that NATS advises, 8 MiB.
const DefaultMaxPayload = 8 << 20

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("delivery configuration")
