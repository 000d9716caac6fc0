package natspub

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/message"
)

// Shadow publishes messages under subjects of their own and with message ids, for a replay that goes
// past the live ones. It implements replay.Publisher.
type Shadow struct {
	cfg     ShadowConfig
	build   builder
	writers *writers
	nc      *nats.Conn
	answers *answers
	api     api
	filter  string
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
	build, err := newBuilder(shape)
	if err != nil {
		return nil, err
	}
	a, err := newAnswers(nc)
	if err != nil {
		return nil, err
	}
	return &Shadow{
		cfg: cfg, build: build, writers: newWriters(build), nc: nc, answers: a,
		api: newAPI(nc, cfg.APIPrefix, cfg.Stream, defaultAckTimeout), filter: cfg.Prefix + ".>",
	}, nil
}

// Largest implements delivery.Sizer.
func (s *Shadow) Largest() (bytes int64, limit string) {
	return s.build.largest(s.nc.MaxPayload(), s.cfg.MaxMessageSize, s.cfg.Stream)
}

// Copies implements delivery.Sizer.
func (s *Shadow) Copies() int { return s.build.copies() }

// Close ends the subscription to acknowledgements.
func (s *Shadow) Close() error { return s.answers.close() }

// Publish sends the messages, those of one stream one after the other. Sending one again within the stream's duplicate window
// stores nothing.
func (s *Shadow) Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome {
	w := s.writers.get()
	defer s.writers.put(w)
	run := &pipeline{
		Shadow: s, messages: messages, writer: w, outcomes: make([]delivery.Outcome, len(messages)), next: followers(messages),
		replies: make(map[int]string, len(messages)), done: make(chan struct{}),
	}
	disconnected := s.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED, nats.DISCONNECTED)
	defer s.nc.RemoveStatusListener(disconnected)
	run.drive(ctx, disconnected)
	return run.outcomes
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
	ask, cancel := context.WithTimeout(ctx, defaultAckTimeout)
	defer cancel()
	switch info, err := s.api.info(ask); {
	case err != nil:
		return nil, 0, err
	case info.State.LastSeq < after:
		return nil, 0, fmt.Errorf("the stream ends at %d, and the replay stored a message at %d: %w", info.State.LastSeq, after, delivery.ErrStreamForgot)
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
			found[i], err = s.api.next(ctx, s.filter, from+uint64(i))
			return err
		})
	}
	return found, asking.Wait()
}
