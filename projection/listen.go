package projection

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message"
)

const (
	// fetchMessages and fetchWait bound one request for messages. Every request is a new one, so that a client that the server has forgotten
	// (nats-io/nats.go#2063) is heard again with the next.
	fetchMessages = 500
	fetchWait     = 5 * time.Second
	// gatherTime is the wait for further messages once one has come.
	gatherTime = 5 * time.Millisecond
	// ackWait is the time after which the server sends an unacknowledged message again.
	ackWait = time.Minute
	// busyPause is the time until a stream that was being applied is announced again; it doubles up to longestBusyPause.
	busyPause        = 10 * time.Millisecond
	longestBusyPause = time.Second
	// longestStream is the outbox's limit of a stream's key, in bytes.
	longestStream = 1024
)

// bell is the newest message about a stream that is not written down yet.
type bell struct {
	version int64
	msg     jetstream.Msg
}

// listen announces the messages' versions, and acknowledges them after that, until the context ends.
func (p *Projection) listen(ctx context.Context) {
	var consumer jetstream.Consumer
	bells := map[string]bell{} // by stream: mostly those that others are applying at this moment
	trouble := pause{}
	var failed time.Time
	for ctx.Err() == nil {
		var err error
		if consumer == nil {
			consumer, err = p.consumer(ctx)
		}
		if err == nil {
			most := fetchMessages
			if time.Since(failed) < 2*ackWait { // a message that the client takes for an answer of the server hides those behind it
				most = 1
			}
			err = p.hear(ctx, consumer, bells, most)
		}
		if wait := trouble.after(err); err != nil && ctx.Err() == nil {
			failed = time.Now()
			p.log.WarnContext(ctx, "the stream cannot be heard; the sweep finds what is new meanwhile", "error", err, "again_in", wait)
			consumer = nil
			p.idle(ctx, wait, true)
		}
	}
}

// Durable returns the name of the durable consumer that all processes of the projection share.
func (p *Projection) Durable() string { return "projection-" + p.schema }

func (p *Projection) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	return p.cfg.JetStream.CreateOrUpdateConsumer(ctx, p.cfg.Stream, jetstream.ConsumerConfig{
		Durable: p.Durable(), FilterSubject: p.cfg.Filter, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 20 * fetchMessages,
	})
}

// hear takes the messages of one request. A stream that is being applied cannot be announced: its bell waits, and nothing waits for it.
func (p *Projection) hear(ctx context.Context, consumer jetstream.Consumer, bells map[string]bell, most int) error {
	request, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	batch, err := consumer.Fetch(most, jetstream.FetchContext(request))
	if err != nil {
		return err
	}
	var gathered, again <-chan time.Time
	wait := busyPause
	if len(bells) > 0 {
		again = time.After(wait)
	}
	began, heard := time.Now(), 0
	for messages := batch.Messages(); messages != nil; {
		select {
		case msg, open := <-messages:
			if !open {
				messages = nil
				break
			}
			heard++
			if err := p.note(ctx, bells, msg); err != nil {
				return err
			}
			if gathered == nil {
				gathered = time.After(gatherTime)
			}
			continue
		case <-gathered:
			wait = busyPause
		case <-again:
			wait = min(2*wait, longestBusyPause)
		}
		gathered, again = nil, nil
		if err := p.tell(ctx, bells); err != nil {
			return err // unacknowledged messages come again
		}
		if len(bells) > 0 {
			again = time.After(wait)
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if heard < most && time.Since(began) < fetchWait/2 && ctx.Err() == nil {
		return errCutShort
	}
	return nil
}

// errCutShort: a request ended before its time, without an error.
var errCutShort = errors.New("the server said that there is no more, and it cannot know")

// note keeps the newest message about each stream, and acknowledges those that it stands for. So one message of a stream waits, however far
// the stream is behind.
func (p *Projection) note(ctx context.Context, bells map[string]bell, msg jetstream.Msg) error {
	stream := msg.Headers().Get(message.HeaderStream)
	version, err := strconv.ParseInt(msg.Headers().Get(message.HeaderStreamVersion), 10, 64)
	if err != nil || version < 1 || stream == "" || len(stream) > longestStream ||
		!utf8.ValidString(stream) || strings.ContainsRune(stream, 0) {
		p.log.WarnContext(ctx, "a message names no stream and version, it is passed over", "subject", msg.Subject())
		return msg.Ack()
	}
	newest := bell{version: version, msg: msg}
	if older, known := bells[stream]; known {
		if older.version > version {
			newest, older = older, newest
		}
		if !same(older.msg, newest.msg) {
			if err := p.ack(older.msg); err != nil {
				return err
			}
		}
	}
	bells[stream] = newest
	return nil
}

// same reports whether a message is another delivery of the other one.
func same(a, b jetstream.Msg) bool {
	first, err := a.Metadata()
	second, err2 := b.Metadata()
	return err == nil && err2 == nil && first.Sequence.Stream == second.Sequence.Stream
}

// tell announces the bells' versions, and acknowledges those that were stored.
func (p *Projection) tell(ctx context.Context, bells map[string]bell) error {
	versions := make(map[string]int64, len(bells))
	for stream, b := range bells {
		versions[stream] = b.version
	}
	done, err := p.Announce(ctx, versions)
	if err != nil {
		return err
	}
	for _, stream := range done {
		if err := p.ack(bells[stream].msg); err != nil {
			return err
		}
		delete(bells, stream)
	}
	return nil
}

func (p *Projection) ack(msg jetstream.Msg) error {
	if err := msg.Ack(); err != nil {
		return err
	}
	p.metrics.announced.Inc()
	return nil
}
