package delivery

import (
	"context"
	"errors"
)

// Publisher publishes the messages of one partition.
//
// Publish returns one outcome for each message of the batch, in order. It must
// not publish a message before every earlier message of its stream has been
// acknowledged or was published before, and it must stop when ctx ends: what
// has no definite answer by then is Unresolved. It is called for many
// partitions at once, but for one partition never twice at a time.
type Publisher interface {
	Publish(ctx context.Context, b Batch) []Outcome
}

// Sentinels that a publisher wraps into the Err of Unresolved outcomes.
var (
	// ErrOutage means that the broker cannot take messages now.
	ErrOutage = errors.New("broker unavailable")
	// ErrUnknown means that a message may or may not have been stored.
	ErrUnknown = errors.New("acknowledgement unknown")
	// ErrConfiguration means that nothing will succeed before a person changes
	// a setting; the relay stops.
	ErrConfiguration = errors.New("broker configuration")
)
