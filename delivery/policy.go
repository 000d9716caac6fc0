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

// Block is what waits behind a failed message.
type Block string

// The kinds of blocking.
const (
	BlockStream    Block = "stream"
	BlockPartition Block = "partition"
	BlockNone      Block = "none"
)

// OnDead is what happens behind a dead message.
type OnDead string

// The kinds of dealing with dead messages.
const (
	// DeadBlock lets what is blocked wait for a person.
	DeadBlock OnDead = "block"
	// DeadSkip lets it pass; the dead message stays for a person.
	DeadSkip OnDead = "skip"
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

// FailurePolicy says what a message that failed by its own fault holds up.
type FailurePolicy struct {
	// Block defaults to BlockStream.
	Block Block
	// OnDead defaults to DeadBlock.
	OnDead OnDead
}

func (p FailurePolicy) withDefaults() FailurePolicy {
	if p.Block == "" {
		p.Block = BlockStream
	}
	if p.OnDead == "" {
		p.OnDead = DeadBlock
	}
	return p
}

// Validate refuses unknown kinds, by name.
func (p FailurePolicy) Validate() error {
	switch p.Block {
	case BlockStream, BlockPartition, BlockNone:
	default:
		return fmt.Errorf("%w: FailurePolicy.Block must be stream, partition or none, got %q", ErrConfig, p.Block)
	}
	switch p.OnDead {
	case DeadBlock, DeadSkip:
	default:
		return fmt.Errorf("%w: FailurePolicy.OnDead must be block or skip, got %q", ErrConfig, p.OnDead)
	}
	return nil
}

// halts tells whether nothing of a partition passes a failed message.
func (p FailurePolicy) halts() bool { return p.Block == BlockPartition }

// passes tells whether everything passes a failed message.
func (p FailurePolicy) passes() bool { return p.Block == BlockNone }

// skipsDead tells whether dead messages hold up nothing.
func (p FailurePolicy) skipsDead() bool { return p.OnDead == DeadSkip }
