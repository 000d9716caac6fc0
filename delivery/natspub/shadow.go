package natspub

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/message"
)

// Shadow publishes messages under subjects of their own and with message ids, for a replay that goes
// past the live ones. It implements replay.Publisher.
type Shadow struct {
	cfg     ShadowConfig
	build   wire.Builder
	writers *wire.WriterPool
	nc      *nats.Conn
	api     wire.StreamAPI
	filter  string
}

// ShadowConfig names where the messages go.
type ShadowConfig struct {
	// Prefix is put before the subjects; fixed tokens, separated by dots.
	Prefix string
	// Stream must capture everything below the prefix.
	Stream string
	// APIPrefix is as in StreamConfig.
	APIPrefix string
	// Shape is that of the live messages; its subject stands behind the prefix.
	Shape wire.Shape
	// MaxMessageSize is the stream's own limit, in bytes; 0 or below: none.
	MaxMessageSize int
}

// NewShadow returns a publisher on a connection made by Connect.
func NewShadow(nc *nats.Conn, cfg ShadowConfig) (*Shadow, error) {
	shape, err := cfg.Shape.WithDefaults()
	if err != nil {
		return nil, err
	}
	if shape.Subject, err = wire.ParseSubject(cfg.Prefix + "." + shape.Subject.String()); err != nil {
		return nil, err
	}
	build, err := wire.NewBuilder(shape)
	if err != nil {
		return nil, err
	}
	return &Shadow{
		cfg: cfg, build: build, writers: wire.NewWriterPool(build), nc: nc,
		api: wire.NewStreamAPI(nc, cfg.APIPrefix, cfg.Stream, wire.DefaultAckTimeout), filter: cfg.Prefix + ".>",
	}, nil
}

// Publish sends the messages, those of one stream one after the other: behind one of unknown outcome it sends none. Sending one again
// within the stream's duplicate window stores nothing.
func (s *Shadow) Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome {
	outcomes, streams := make([]delivery.Outcome, len(messages)), map[string][]int{}
	for i, m := range messages {
		streams[m.Stream] = append(streams[m.Stream], i)
	}
	var sending errgroup.Group
	sending.SetLimit(shadowInFlight)
	for _, stream := range streams {
		sending.Go(func() error {
			for _, i := range stream {
				if outcomes[i] = s.send(ctx, messages[i]); outcomes[i].Kind == delivery.Unresolved {
					break
				}
			}
			return nil
		})
	}
	_ = sending.Wait()
	return outcomes
}

// shadowInFlight bounds the messages in flight, each of another stream.
const shadowInFlight = 512

func (s *Shadow) send(ctx context.Context, m delivery.Message) delivery.Outcome {
	if err := s.build.Headers.Check(m.Event); err != nil {
		return delivery.Outcome{Kind: delivery.Permanent, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, wire.DefaultAckTimeout)
	defer cancel()
	w := s.writers.Get()
	defer s.writers.Put(w)
	msg := w.Message(m, s.build.Body(m))
	w.Set(nats.MsgIdHdr, w.MessageID(m))
	if err := wire.CheckSize(wire.HeaderSize(msg.Header)+len(msg.Data), s.nc.MaxPayload(), s.cfg.MaxMessageSize, s.cfg.Stream); err != nil {
		return delivery.Outcome{Kind: delivery.Permanent, Err: err}
	}
	reply, err := s.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return wire.Classify(wire.Plainly(s.nc, err))
	}
	switch ans := wire.ParseAnswer(reply); {
	case ans.Err != nil:
		return wire.Classify(ans.Err)
	case ans.Stream != s.cfg.Stream:
		return delivery.Outcome{Err: fmt.Errorf("%w: subject %s is acknowledged by stream %q, not by %q (--stream)",
			delivery.ErrConfiguration, msg.Subject, ans.Stream, s.cfg.Stream)}
	default:
		return delivery.Outcome{Kind: delivery.Published, StreamSequence: ans.Sequence, Duplicate: ans.Duplicate}
	}
}

const (
	// askedBeside messages are asked for at once, askedRounds times before Stored answers.
	askedBeside = 64
	askedRounds = 64
)

// Stored returns the positions of messages under the prefix behind that position, by the events' sequences: of that generation alone, as
// other replays may have used the prefix. It reads some 4,000 messages and returns the last one's position; 0: it reached the end.
func (s *Shadow) Stored(ctx context.Context, after uint64, generation int) (stored map[int64]uint64, through uint64, err error) {
	stored, of := map[int64]uint64{}, strconv.Itoa(generation)
	ask, cancel := context.WithTimeout(ctx, wire.DefaultAckTimeout)
	defer cancel()
	switch info, err := s.api.Info(ask); {
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
			if m.Sequence == 0 {
				return stored, 0, nil
			}
			sequence, err := strconv.ParseInt(m.Header.Get(message.HeaderSequence), 10, 64)
			if err != nil {
				return nil, 0, fmt.Errorf("message %d under %s is not of a replay: header %s is %q", m.Sequence, s.filter, message.HeaderSequence, m.Header.Get(message.HeaderSequence))
			}
			if m.Header.Get(message.HeaderGeneration) == of {
				stored[sequence] = m.Sequence
			}
			after = m.Sequence
		}
	}
	return stored, after, nil
}

// ahead asks for the first message under the prefix at or behind each of the next positions: none up to the last answer is missing.
func (s *Shadow) ahead(ctx context.Context, from uint64) ([]wire.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asking, ctx := errgroup.WithContext(ctx)
	found := make([]wire.RawMessage, askedBeside)
	for i := range found {
		asking.Go(func() (err error) {
			found[i], err = s.api.Next(ctx, s.filter, from+uint64(i))
			return err
		})
	}
	return found, asking.Wait()
}

// Capabilities returns the abilities of server and stream now.
func (s *Shadow) Capabilities() delivery.Capabilities {
	return s.build.Capabilities(s.nc, s.cfg.MaxMessageSize, s.cfg.Stream)
}
