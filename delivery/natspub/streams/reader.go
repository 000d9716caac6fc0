package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/headername"
	"github.com/postrider/postrider/internal/unseen"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// StreamReader reads what a stream holds, without payloads. It implements gaps.Stream.
type StreamReader struct {
	js     jetstream.JetStream
	api    wire.StreamAPI
	stream string
	filter string
}

// NewStreamReader returns a reader of the subjects that match the template; apiPrefix is as in StreamConfig.
func NewStreamReader(nc *nats.Conn, apiPrefix, stream string, subject wire.Subject) (*StreamReader, error) {
	js, err := JetStream(nc, apiPrefix)
	if err != nil {
		return nil, err
	}
	return &StreamReader{js: js, api: wire.NewStreamAPI(nc, apiPrefix, stream, wire.DefaultAckTimeout), stream: stream, filter: subject.Filter()}, nil
}

// readTimeout bounds each call of the JetStream API, and the silence after which a reader begins again.
const readTimeout = 5 * time.Second

// Extent returns the stream's first and last position, and its time of creation.
func (r *StreamReader) Extent(ctx context.Context) (gaps.StreamExtent, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	e, err := r.api.Info(ctx)
	if err != nil {
		return gaps.StreamExtent{}, err
	}
	first, err := r.api.Next(ctx, r.filter, 1)
	front := first.Sequence
	if front == 0 {
		front = e.State.LastSeq + 1
	}
	whole := e.State.Msgs == e.State.LastSeq
	return gaps.StreamExtent{First: e.State.FirstSeq, Front: front, Last: e.State.LastSeq, Whole: whole, Created: e.Created}, err
}

// Next returns the first message at or behind a position, and when the broker stored it; Position 0: there is none.
func (r *StreamReader) Next(ctx context.Context, from uint64) (gaps.StoredMessage, time.Time, error) {
	m, err := r.api.Next(ctx, r.filter, from)
	if err != nil || m.Sequence == 0 {
		return gaps.StoredMessage{}, time.Time{}, err
	}
	return EntryOf(r.filter, m.Header, m.Sequence), m.At, nil
}

// Following is that of gaps.Stream.
func (r *StreamReader) Following(ctx context.Context, position uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := r.api.Next(ctx, ">", position)
	return cmp.Or(m.Sequence, math.MaxUint64), err
}

// Drops names settings that let the stream lack single messages, and its oldest ones.
func (r *StreamReader) Drops(ctx context.Context) (single, oldest string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return "", "", fmt.Errorf("look up stream %s: %w", r.stream, err)
	}
	c := stream.CachedInfo().Config
	switch {
	case c.MaxMsgsPerSubject > 0:
		single = fmt.Sprintf("stream %s keeps %d messages of a subject (max_msgs_per_subject)", r.stream, c.MaxMsgsPerSubject)
	case c.Retention != jetstream.LimitsPolicy:
		single = fmt.Sprintf("stream %s drops what was acknowledged (retention %s)", r.stream, c.Retention)
	}
	switch {
	case c.MaxAge > 0:
		oldest = fmt.Sprintf("it drops what is older than %s (max_age)", c.MaxAge)
	case c.Discard == jetstream.DiscardOld && c.MaxMsgs > 0:
		oldest = fmt.Sprintf("it keeps %d messages (max_msgs)", c.MaxMsgs)
	case c.Discard == jetstream.DiscardOld && c.MaxBytes > 0:
		oldest = fmt.Sprintf("it keeps %d bytes (max_bytes)", c.MaxBytes)
	}
	return single, oldest, nil
}

// scanPage bounds the messages that are handed on at once.
const scanPage = 5000

// Scan gives fn the messages between two positions, in their order.
func (r *StreamReader) Scan(ctx context.Context, first, last uint64, fn func([]gaps.StoredMessage) error) error {
	ask, cancel := context.WithTimeout(ctx, readTimeout)
	final, err := r.api.Last(ask, r.filter)
	cancel()
	if err != nil {
		return err
	}
	end := min(final.Sequence, last)
	var failed error
	for at := max(first, 1); at <= end; {
		ask, cancel := context.WithTimeout(ctx, readTimeout)
		next, err := r.api.Next(ask, r.filter, at)
		cancel()
		switch {
		case err != nil:
			return cmp.Or(failed, err)
		case next.Sequence == 0 || next.Sequence > end: // the rest may have been removed meanwhile
			return failed
		case len(next.Body) == 0 && next.Header.Get(headername.Status) != "": // the client keeps it to itself
			if err := fn([]gaps.StoredMessage{EntryOf(r.filter, next.Header, next.Sequence)}); err != nil {
				return err
			}
			at, failed = next.Sequence+1, nil
			continue
		case failed != nil:
			return failed
		}
		at, failed = r.read(ctx, at, end, fn)
	}
	return failed
}

// Unseen returns the first message of the filter behind a stream's position if clients drop it; else nil.
func Unseen(ctx context.Context, js jetstream.JetStream, stream, filter string, after uint64) (*unseen.Message, error) {
	return unseen.Next(ctx, js, stream, filter, after)
}

// LastOf returns the stream sequence of a filter's last message, 0 without one.
func LastOf(ctx context.Context, js jetstream.JetStream, stream, filter string) (uint64, error) {
	return unseen.Last(ctx, js, stream, filter)
}

// read reads from a position until the end, or until no message comes any more, and returns the position to go on from.
func (r *StreamReader) read(ctx context.Context, from, end uint64, fn func([]gaps.StoredMessage) error) (next uint64, err error) {
	consumer, err := r.js.OrderedConsumer(ctx, r.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, HeadersOnly: true,
	})
	if err != nil {
		return from, fmt.Errorf("read stream %s: %w", r.stream, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2000))
	if err != nil {
		return from, fmt.Errorf("read stream %s: %w", r.stream, err)
	}
	defer messages.Stop()
	page := make([]gaps.StoredMessage, 0, scanPage)
	next = from
	hand := func() error {
		if len(page) == 0 {
			return nil
		}
		if err := fn(page); err != nil {
			return err
		}
		next, page = page[len(page)-1].Position+1, page[:0]
		return nil
	}
	for {
		wait, cancel := context.WithTimeout(ctx, readTimeout)
		message, err := messages.Next(jetstream.NextContext(wait))
		cancel()
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoHeartbeat) {
				return next, fmt.Errorf("read stream %s: %w", r.stream, err)
			}
			err = hand()
			return next, err
		}
		meta, err := message.Metadata()
		if err != nil {
			return next, fmt.Errorf("read stream %s: %w", r.stream, err)
		}
		at := meta.Sequence.Stream
		if at <= end {
			page = append(page, EntryOf(message.Subject(), message.Headers(), at))
		}
		if len(page) == scanPage || at >= end {
			if err := hand(); err != nil {
				return next, err
			}
		}
		if at >= end {
			return end + 1, nil
		}
	}
}

// EntryOf reads a message's entry from its headers; where no outbox published it, Foreign says so.
func EntryOf(subject string, header nats.Header, at uint64) gaps.StoredMessage {
	e := gaps.StoredMessage{Position: at, Subject: subject, Stream: header.Get(message.HeaderStream)}
	var err error
	number := func(name string, bits int) int64 {
		n, parse := strconv.ParseInt(header.Get(name), 10, bits)
		err = errors.Join(err, parse)
		return n
	}
	e.Sequence, e.Version = max(0, number(message.HeaderSequence, 64)), number(message.HeaderStreamVersion, 64)
	e.Partition = partition.ID(number(message.HeaderPartition, 16)) // of 16 bits
	if header.Get(message.HeaderGeneration) != "" {
		e.Generation = int(number(message.HeaderGeneration, 32))
	}
	var parse error
	e.EventID, parse = uuid.Parse(header.Get(message.HeaderEventID))
	if err = errors.Join(err, parse); err != nil {
		e.Foreign = "no outbox published it on " + subject
	}
	return e
}
