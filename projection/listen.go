package projection

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// fetchMessages and fetchWait bound one request for messages. Every request is a new one, so that a client that the
	// server has forgotten (nats-io/nats.go#2063) is heard again with the next.
	fetchMessages = 500
	fetchWait     = 5 * time.Second
	// gatherTime is how long further messages are waited for once one has come.
	gatherTime = 5 * time.Millisecond
	// ackWait is how long a message may be under way before the server sends it again.
	ackWait = time.Minute
)

// listen announces what the messages tell of, and acknowledges them after that, until the context ends.
func (p *Projection) listen(ctx context.Context) {
	var consumer jetstream.Consumer
	trouble := pause{}
	for ctx.Err() == nil {
		var err error
		if consumer == nil {
			consumer, err = p.consumer(ctx)
		}
		if err == nil {
			err = p.hear(ctx, consumer)
		}
		if wait := trouble.after(err); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the stream cannot be heard; the sweep finds what is new meanwhile", "error", err, "again_in", wait)
			consumer = nil
			p.rest(ctx, wait)
		}
	}
}

// Durable is the name of the durable consumer that all processes of the projection share.
func (p *Projection) Durable() string { return "projection-" + p.schema }

func (p *Projection) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	return p.cfg.JetStream.CreateOrUpdateConsumer(ctx, p.cfg.Stream, jetstream.ConsumerConfig{
		Durable: p.Durable(), FilterSubject: p.cfg.Filter, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 20 * fetchMessages,
	})
}

// hear takes what one request brings.
func (p *Projection) hear(ctx context.Context, consumer jetstream.Consumer) error {
	request, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	batch, err := consumer.Fetch(fetchMessages, jetstream.FetchContext(request))
	if err != nil {
		return err
	}
	var news []jetstream.Msg
	var gathered <-chan time.Time
	for messages := batch.Messages(); messages != nil; {
		select {
		case msg, open := <-messages:
			if !open {
				messages = nil
				break
			}
			if news = append(news, msg); gathered == nil {
				gathered = time.After(gatherTime)
			}
			continue
		case <-gathered:
		}
		gathered = nil
		if err := p.tell(ctx, news); err != nil {
			return err // what was not acknowledged comes again
		}
		news = nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// tell announces the newest version of each stream among the messages, and acknowledges them.
func (p *Projection) tell(ctx context.Context, messages []jetstream.Msg) error {
	versions := map[string]int64{}
	for _, msg := range messages {
		stream := msg.Headers().Get("Outbox-Stream")
		version, err := strconv.ParseInt(msg.Headers().Get("Outbox-Stream-Version"), 10, 64)
		if err != nil || stream == "" || version < 1 {
			p.log.WarnContext(ctx, "a message names no stream and version, it is passed over", "subject", msg.Subject())
			continue
		}
		versions[stream] = max(versions[stream], version)
	}
	if err := p.announceAll(ctx, versions); err != nil {
		return err
	}
	for _, msg := range messages {
		if err := msg.Ack(); err != nil {
			return err
		}
		p.metrics.announced.Inc()
	}
	return nil
}
