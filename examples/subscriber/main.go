package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/codec"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "subscriber:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL
	}
	nc, err := nats.Connect(url, nats.Name("subscriber example"), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, "EVENTS", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"events.>"}, // without the control messages of outbox.fence.>
		DeliverPolicy:  jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	p := projection{versions: map[string]int64{}}
	for {
		msg, err := messages.Next()
		switch {
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			fmt.Printf("%d events of %d streams, %d repeated\n", p.applied, len(p.versions), p.repeated)
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the server is away; the iterator asks again
		case err != nil:
			return err
		}
		if err := p.apply(msg); err != nil {
			return err
		}
	}
}

// projection stands for what a consumer makes of the events. It remembers the
// version of every stream, as a table with the column version would.
type projection struct {
	versions          map[string]int64
	applied, repeated int
}

func (p *projection) apply(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	stream := msg.Headers().Get(message.HeaderStream)
	version, err := strconv.ParseInt(msg.Headers().Get(message.HeaderStreamVersion), 10, 64)
	if err != nil {
		return fmt.Errorf("stream sequence %d is not an event of an outbox: %w", meta.Sequence.Stream, err)
	}
	if version <= p.versions[stream] {
		p.repeated++ // a repeat (or a replay, which has Outbox-Generation): it was applied before
		return nil
	}
	body, err := codec.Body(msg.Headers(), msg.Data(), 0) // without compression, if there is any
	if err != nil {
		return fmt.Errorf("stream sequence %d: %w", meta.Sequence.Stream, err)
	}
	p.versions[stream] = version
	p.applied++
	fmt.Printf("%d %s %s@%d %d bytes\n", meta.Sequence.Stream, msg.Headers().Get(message.HeaderType), stream, version, len(body))
	return nil
}
