package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

type subscription struct {
	// apiPrefix is the argument of streams.JetStream.
	apiPrefix string
	stream    string
	filter    string
	durable   string
	// from is the delivery policy of a new consumer.
	from jetstream.DeliverPolicy
	// idle ends the subscription after so long without a message, once the stream says that it holds no more; 0: never.
	idle time.Duration
}

var errConsumer = errors.New("cannot subscribe")

// errStandsStill is returned when the stream holds messages that the consumer does not deliver.
var errStandsStill = errors.New("the consumer stands still")

// errUnseen is returned where the client does not deliver the next message.
var errUnseen = errors.New("the next message cannot be read")

// quietTime is the silence after which the stream is asked for more messages. After a change of leaders a client may have no request left
// at the server, yet hear its heartbeats (nats-io/nats.go#2063).
const quietTime = 2 * time.Second

// readHeartbeat is the interval of an idle broker's heartbeats. After two missing ones the consumer is made anew.
const readHeartbeat = 500 * time.Millisecond

// subscribe passes the messages to receive, in order, until the context ends. It calls ready when the consumer exists. A durable
// subscription acknowledges each message when receive returns. A consumer that stalls, whose server is silent, or that lost a message on the
// way, is replaced by one behind the last message. subscribe fails when the client gives the connection up, or when the stream does not
// say, after the idle time, whether it holds more.
func subscribe(ctx context.Context, nc *nats.Conn, sub subscription, ready func(), receive func(jetstream.Msg) error) error {
	js, err := streams.JetStream(nc, sub.apiPrefix)
	if err != nil {
		return fmt.Errorf("%w: %w", errConsumer, err)
	}
	r := reader{js: js, subscription: sub, receive: receive, quiet: min(quietTime, cmp.Or(sub.idle, quietTime)), came: time.Now()}
	consumer, err := r.consumer(ctx)
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: stream %s does not exist (--stream)", errConsumer, sub.stream)
		}
		return fmt.Errorf("%w to stream %s: %w", errConsumer, sub.stream, err)
	}
	ready()
	for {
		err := r.read(ctx, consumer)
		r.leave(ctx, consumer)
		if errors.Is(err, errStandsStill) && r.durable == "" {
			err = cmp.Or(r.passUnseen(ctx), err)
		}
		if !errors.Is(err, errStandsStill) {
			return err
		}
		if consumer, err = r.another(ctx); consumer == nil {
			return err
		}
	}
}

// reader reads a stream by consumers that follow each other.
type reader struct {
	subscription

	js      jetstream.JetStream
	receive func(jetstream.Msg) error
	// last is the stream sequence of the last message, or of the stream's end when a first consumer began with new messages.
	last uint64
	// created dates the stream of which last is a sequence.
	created time.Time
	// quiet is the silence after which the stream is asked.
	quiet time.Duration
	// came dates the last message, or the making of the first consumer.
	came time.Time
}

// closed returns why the connection has ended; nil: it is open, or the client reconnects.
func (r *reader) closed() error {
	if nc := r.js.Conn(); nc.IsClosed() {
		return fmt.Errorf("receive from stream %s: %w", r.stream, cmp.Or(nc.LastError(), nats.ErrConnectionClosed))
	}
	return nil
}

// another makes a consumer behind the last message once the stream can be reached; nil if the context, the connection or the idle time
// ends before.
func (r *reader) another(ctx context.Context) (jetstream.Consumer, error) {
	for ctx.Err() == nil && r.closed() == nil {
		attempt, cancel := context.WithTimeout(ctx, max(r.quiet, quietTime))
		consumer, err := r.consumer(attempt)
		cancel()
		if err == nil {
			return consumer, nil
		}
		if err := r.unknown(ctx, err); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.quiet):
		}
	}
	return nil, r.closed()
}

// idled reports whether the idle time is over.
func (r *reader) idled() bool { return r.idle > 0 && time.Since(r.came) >= r.idle }

// unknown returns the error of a stream that does not say, after the idle time, whether it holds more; nil: the subscription goes on.
func (r *reader) unknown(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !r.idled() {
		return nil
	}
	return fmt.Errorf("nothing came for %s, and stream %s does not say whether it holds more: %w", r.idle, r.stream, err)
}

// read receives until the context ends, receive fails, or the consumer stalls.
func (r *reader) read(ctx context.Context, consumer jetstream.Consumer) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2000), jetstream.PullHeartbeat(readHeartbeat))
	if err != nil {
		return fmt.Errorf("%w to stream %s: %w", errConsumer, r.stream, err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	var received uint64
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(r.quiet))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && r.closed() != nil: // whatever the other error is
			return r.closed()
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return nil
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrNoHeartbeat) && r.durable != "" && r.idled():
			idle := r.idled()
			more, err := r.behind(ctx)
			switch err = r.unknown(ctx, err); {
			case err != nil || !more && idle:
				return err
			case !more:
				continue
			}
			if r.durable != "" {
				return r.named(ctx, errStandsStill)
			}
			return errStandsStill
		case errors.Is(err, jetstream.ErrNoHeartbeat) && r.durable != "":
			continue // the broker is away; the iterator retries
		case errors.Is(err, jetstream.ErrNoHeartbeat), errors.Is(err, jetstream.ErrConsumerDeleted) && r.durable == "":
			return errStandsStill
		case err != nil:
			err = r.named(ctx, fmt.Errorf("receive from stream %s: %w", r.stream, err))
			if r.durable == "" && errors.Is(err, errUnseen) {
				return errStandsStill
			}
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("receive from stream %s: %w", r.stream, err)
		}
		if received++; r.durable == "" && meta.Sequence.Consumer != received {
			return errStandsStill // a message was lost on the way
		}
		if err := r.receive(msg); err != nil {
			return err
		}
		r.last, r.came = meta.Sequence.Stream, time.Now()
		if r.durable != "" {
			if err := msg.Ack(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
	}
}

// passUnseen receives the messages that the client does not deliver, up to the first that it does. A durable consumer cannot skip them.
func (r *reader) passUnseen(ctx context.Context) error {
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, quietTime)
		msg, err := streams.Unseen(ask, r.js, r.stream, r.filter, r.last)
		cancel()
		if err != nil || msg == nil {
			return r.unknown(ctx, err) // else the next consumer begins behind the last message
		}
		if err := r.receive(msg); err != nil {
			return err
		}
		r.last, r.came = msg.Place().Sequence.Stream, time.Now()
	}
	return nil
}

// named returns an error that names the message on which a durable consumer is stuck; without one, err.
func (r *reader) named(ctx context.Context, err error) error {
	ask, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	after := r.last
	if r.durable != "" {
		consumer, missing := r.js.Consumer(ask, r.stream, r.durable)
		if missing != nil {
			return err
		}
		after = max(after, consumer.CachedInfo().AckFloor.Stream) // received messages may not be acknowledged yet
	}
	if msg, _ := streams.Unseen(ask, r.js, r.stream, r.filter, after); msg != nil {
		return fmt.Errorf("%[3]w: message %[2]d of stream %[1]s has a header Status and no payload, which NATS clients take for an answer of the server: "+
			"read without --durable, or remove it (`nats stream rmm %[1]s %[2]d`)", r.stream, msg.Place().Sequence.Stream, errUnseen)
	}
	return err
}

// leave removes an unread consumer; the server would do so after a minute.
func (r *reader) leave(ctx context.Context, consumer jetstream.Consumer) {
	if r.durable != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.js.DeleteConsumer(ctx, r.stream, consumer.CachedInfo().Name) // the server removes it anyway
}

// behind reports whether the stream holds messages not yet received.
func (r *reader) behind(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	if r.durable == "" {
		end, err := streams.LastOf(ctx, r.js, r.stream, r.filter)
		return end > r.last, err
	}
	consumer, err := r.js.Consumer(ctx, r.stream, r.durable)
	return err == nil && consumer.CachedInfo().NumPending > 0, err
}

func (r *reader) consumer(ctx context.Context) (jetstream.Consumer, error) {
	if r.durable == "" {
		return r.ordered(ctx)
	}
	consumer, err := r.js.Consumer(ctx, r.stream, r.durable)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return consumer, err // it goes on where it stopped
	}
	return r.js.CreateConsumer(ctx, r.stream, jetstream.ConsumerConfig{
		Durable: r.durable, FilterSubject: r.filter, DeliverPolicy: r.from,
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 5000,
	})
}

// ordered makes a consumer like the client's ordered ones, unused since they make themselves anew and wait 10 s for a lost server.
func (r *reader) ordered(ctx context.Context) (jetstream.Consumer, error) {
	config := jetstream.ConsumerConfig{
		FilterSubject: r.filter, DeliverPolicy: r.from, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	}
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	switch {
	case !r.created.IsZero() && !r.created.Equal(info.Created): // all its messages are new
		r.last, config.DeliverPolicy = 0, jetstream.DeliverAllPolicy
	case r.created.IsZero() && r.from == jetstream.DeliverNewPolicy:
		r.last = info.State.LastSeq
	case r.last == 0 && r.from == jetstream.DeliverNewPolicy: // the stream was empty then
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	r.created = info.Created
	if r.last > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.last+1
	}
	return r.js.CreateConsumer(ctx, r.stream, config)
}

// eventsFilter returns the subject filter of a template.
func eventsFilter(template string) (string, error) {
	subject, err := wire.ParseSubject(template)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	return subject.Filter(), nil
}
