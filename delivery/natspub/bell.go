package natspub

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Bell is a doorbell over core NATS (ADR 8): a ring reaches everybody who listens on
// the subject, and is lost when nobody can be reached. Rings that come while
// one is waiting are one ring.
type Bell struct {
	nc      *nats.Conn
	subject string
	sub     *nats.Subscription
	rung    chan struct{}
}

// NewBell listens on the subject. Close ends it.
func NewBell(nc *nats.Conn, subject string) (*Bell, error) {
	b := &Bell{nc: nc, subject: subject, rung: make(chan struct{}, 1)}
	sub, err := nc.Subscribe(subject, func(*nats.Msg) {
		select {
		case b.rung <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen to doorbell %s: %w", subject, err)
	}
	b.sub = sub
	return b, nil
}

// Ring rings; it never waits and never fails loudly: polling finds what a lost
// ring announced.
func (b *Bell) Ring() { _ = b.nc.Publish(b.subject, nil) }

// Rung receives after rings.
func (b *Bell) Rung() <-chan struct{} { return b.rung }

// Flush returns when the server knows of the subscription: rings from then on
// are heard.
func (b *Bell) Flush(ctx context.Context) error {
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("listen to doorbell %s: %w", b.subject, err)
	}
	return nil
}

// Close stops listening.
func (b *Bell) Close() error { return b.sub.Unsubscribe() }
