package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub"
)

// subscription says what to read of a stream.
type subscription struct {
	stream  string
	filter  string
	durable string
	// from is the delivery policy of a consumer that is made now.
	from jetstream.DeliverPolicy
}

// errConsumer is returned when the consumer cannot be made.
var errConsumer = errors.New("cannot subscribe")

// subscribe hands the messages to receive, in order, until the context ends.
// ready is called when the consumer is there. An ephemeral subscription is an
// ordered consumer, which restarts itself where it stopped; a durable one
// acknowledges what receive returned from.
func subscribe(ctx context.Context, nc *nats.Conn, sub subscription, ready func(), receive func(jetstream.Msg) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("%w: %w", errConsumer, err)
	}
	consumer, err := makeConsumer(ctx, js, sub)
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: stream %s does not exist (--stream)", errConsumer, sub.stream)
		}
		return fmt.Errorf("%w to stream %s: %w", errConsumer, sub.stream, err)
	}
	ready()
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2000))
	if err != nil {
		return fmt.Errorf("%w to stream %s: %w", errConsumer, sub.stream, err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	for {
		msg, err := messages.Next()
		switch {
		case errors.Is(err, jetstream.ErrMsgIteratorClosed), ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the broker is away; the iterator asks again
		case err != nil:
			return fmt.Errorf("receive from stream %s: %w", sub.stream, err)
		}
		if err := receive(msg); err != nil {
			return err
		}
		if sub.durable != "" {
			if err := msg.Ack(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
	}
}

func makeConsumer(ctx context.Context, js jetstream.JetStream, sub subscription) (jetstream.Consumer, error) {
	if sub.durable == "" {
		return js.OrderedConsumer(ctx, sub.stream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{sub.filter}, DeliverPolicy: sub.from,
		})
	}
	consumer, err := js.Consumer(ctx, sub.stream, sub.durable)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return consumer, err // it goes on where it stopped
	}
	return js.CreateConsumer(ctx, sub.stream, jetstream.ConsumerConfig{
		Durable: sub.durable, FilterSubject: sub.filter, DeliverPolicy: sub.from,
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 5000,
	})
}

// eventsFilter is the subject filter that fits a template.
func eventsFilter(template string) (string, error) {
	subject, err := natspub.ParseSubject(template)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	return subject.Filter(), nil
}
