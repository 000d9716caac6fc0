package natspub

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/message"
)

// Shadow publishes messages under subjects of their own, for a replay that goes
// past the live ones. It implements replay.Publisher.
type Shadow struct {
	dedupe *Dedupe
	filter string
	lease  *lease.Lease
}

// ShadowConfig says where the messages go.
type ShadowConfig struct {
	// Prefix is put before the subjects; fixed tokens, separated by dots.
	Prefix string
	// Stream must capture everything below the prefix.
	Stream string
	// APIPrefix is as in StreamConfig.
	APIPrefix string
	// Shape is that of the live messages; its subject stands behind the prefix.
	Shape Shape
	// MaxMessageSize is the stream's own limit, in bytes; 0 or below: none.
	MaxMessageSize int
}

// NewShadow returns a publisher on a connection made by Connect. Close ends it.
func NewShadow(nc *nats.Conn, cfg ShadowConfig) (*Shadow, error) {
	shape, err := cfg.Shape.withDefaults()
	if err != nil {
		return nil, err
	}
	if shape.Subject, err = ParseSubject(cfg.Prefix + "." + shape.Subject.String()); err != nil {
		return nil, err
	}
	d, err := NewDedupe(nc, DedupeConfig{Stream: cfg.Stream, APIPrefix: cfg.APIPrefix, Shape: shape, MaxMessageSize: cfg.MaxMessageSize})
	if err != nil {
		return nil, err
	}
	return &Shadow{dedupe: d, filter: cfg.Prefix + ".>", lease: lease.Untimed(0, uuid.Nil, 0)}, nil
}

// Largest implements delivery.Sizer.
func (s *Shadow) Largest() (bytes int64, limit string) { return s.dedupe.Largest() }

// Copies implements delivery.Sizer.
func (s *Shadow) Copies() int { return s.dedupe.Copies() }

// Close ends the subscription to acknowledgements.
func (s *Shadow) Close() error { return s.dedupe.Close() }

// Publish sends the messages, those of one stream one after the other.
func (s *Shadow) Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome {
	return s.dedupe.one(ctx, delivery.Batch{
		Lease: s.lease, Messages: messages, Order: delivery.OrderStream,
		Policy: delivery.BehindNone,
	})
}

const (
	// askedBeside is how many messages are asked for at once, askedRounds how often before Stored answers.
	askedBeside = 64
	askedRounds = 64
)

// Stored returns what the stream holds under the prefix behind that position, by
// the events' sequences: messages of that generation alone, as other replays may
// have used the same prefix. It looks at some 4,000 messages and returns the last one's
// position; 0: nothing is behind them.
func (s *Shadow) Stored(ctx context.Context, after uint64, generation int) (stored map[int64]uint64, through uint64, err error) {
	stored, of := map[int64]uint64{}, strconv.Itoa(generation)
	switch extent, err := s.dedupe.Extent(ctx); {
	case err != nil:
		return nil, 0, err
	case extent.Last < after:
		return nil, 0, fmt.Errorf("the stream ends at %d, and the replay stored a message at %d: %w", extent.Last, after, delivery.ErrStreamForgot)
	}
	for range askedRounds {
		found, err := s.ahead(ctx, after+1)
		if err != nil {
			return nil, 0, err
		}
		for _, m := range found {
			if m.sequence == 0 {
				return stored, 0, nil
			}
			sequence, err := strconv.ParseInt(m.header.Get(message.HeaderSequence), 10, 64)
			if err != nil {
				return nil, 0, fmt.Errorf("message %d under %s is not of a replay: header %s is %q", m.sequence, s.filter, message.HeaderSequence, m.header.Get(message.HeaderSequence))
			}
			if m.header.Get(message.HeaderGeneration) == of {
				stored[sequence] = m.sequence
			}
			after = m.sequence
		}
	}
	return stored, after, nil
}

// ahead asks for the first message under the prefix at or behind each of the next positions: so none up to the last answer's is missing.
func (s *Shadow) ahead(ctx context.Context, from uint64) ([]storedMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asking, ctx := errgroup.WithContext(ctx)
	found := make([]storedMessage, askedBeside)
	for i := range found {
		asking.Go(func() (err error) {
			found[i], err = s.dedupe.api.next(ctx, s.filter, from+uint64(i))
			return err
		})
	}
	return found, asking.Wait()
}
