package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/partition"
)

// Bell is a doorbell over core NATS (ADR 8): a ring reaches everybody who listens on the subject, and is lost when nobody can be reached.
// Rings that come while one is waiting are one ring. It implements loop.Doorbell.
type Bell struct {
	nc      *nats.Conn
	subject string
	sub     *nats.Subscription
	rung    chan struct{}

	mu    sync.Mutex
	named map[partition.ID]bool
	every bool
}

var bellRight = regexp.MustCompile(`for (Subscription|Publish) to "(outbox\.bell\.[^"]*)"`) // see outbox.BellSubject

// refusedBell returns the right to a doorbell's subject that the user lacks by a server's refusal; "": it concerns another subject. The
// client names no subscription with it.
func refusedBell(err error) (right, subject string) {
	if found := bellRight.FindStringSubmatch(fmt.Sprint(err)); found != nil && errors.Is(err, nats.ErrPermissionViolation) {
		return map[string]string{"Subscription": "subscribe", "Publish": "publish"}[found[1]], found[2]
	}
	return "", ""
}

// NewBell listens on the subject. Close ends it.
func NewBell(nc *nats.Conn, subject string) (*Bell, error) {
	b := &Bell{nc: nc, subject: subject, rung: make(chan struct{}, 1), named: map[partition.ID]bool{}}
	sub, err := nc.Subscribe(subject, b.hear)
	if err != nil {
		return nil, fmt.Errorf("listen to doorbell %s: %w", subject, err)
	}
	b.sub = sub
	return b, nil
}

func (b *Bell) hear(ring *nats.Msg) {
	named, ok := partition.ParseIDs(ring.Data)
	b.mu.Lock()
	b.every = b.every || !ok
	for _, id := range named {
		b.named[id] = true
	}
	b.mu.Unlock()
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Ring rings for every partition; it never waits or fails loudly: polling finds the events of a lost ring.
func (b *Bell) Ring() { b.RingFor() }

// RingFor rings for some partitions, or for every one if it is given none.
func (b *Bell) RingFor(named ...partition.ID) {
	var body []byte
	for _, id := range named {
		body = id.Append(body)
	}
	_ = b.nc.Publish(b.subject, body)
}

// Rung receives after rings.
func (b *Bell) Rung() <-chan struct{} { return b.rung }

// Heard returns the partitions of the rings since its last call; every: one named none, and was for all.
func (b *Bell) Heard() (named []partition.ID, every bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	named, every = slices.Collect(maps.Keys(b.named)), b.every
	clear(b.named)
	b.every = false
	return named, every
}

// Flush returns when the server knows of the subscription: rings from then on are heard.
func (b *Bell) Flush(ctx context.Context) error {
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("listen to doorbell %s: %w", b.subject, err)
	}
	return nil
}

// Close stops listening.
func (b *Bell) Close() error { return b.sub.Unsubscribe() }
