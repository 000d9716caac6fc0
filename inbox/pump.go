package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/unseen"
	"github.com/postrider/postrider/message"
)

// errStandsStill: JetStream holds messages that it does not deliver.
var errStandsStill = errors.New("the consumer stands still")

// errLostOnTheWay: a message was delivered and did not come.
var errLostOnTheWay = errors.New("a message was lost on the way")

// errRewound: the lanes go back, and are taken anew.
var errRewound = errors.New("the stream holds other messages than those that were read")

// pump reads the stream once for all lanes of this reader, in passes: another one begins after every failure, and when a taken lane needs
// messages behind the pass.
func (r *reader) pump(ctx context.Context) {
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.fresh:
		}
		began := time.Now()
		err := r.pass(ctx)
		if err == nil || ctx.Err() != nil {
			continue // another pass was asked for, or no lane needs one
		}
		if errors.Is(err, errStandsStill) {
			r.box.metrics.standing.Inc()
		}
		if time.Since(began) > r.cfg.QuietTime {
			pause = firstPause
		}
		r.log.WarnContext(ctx, "reading is interrupted; beginning again", "error", err)
		closed.Rehear(r.js.Conn())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
		r.wantPass()
	}
}

// passLocked ends the pass that is under way and has another begun.
func (r *reader) passLocked() {
	if r.endPass != nil {
		r.endPass()
	}
	r.wantPass()
}

func (r *reader) wantPass() {
	select {
	case r.fresh <- struct{}{}:
	default:
	}
}

// pass reads from the least position that a lane needs until its context ends. It returns nil when nothing is wrong.
func (r *reader) pass(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, some := r.beginPass(cancel)
	defer r.closePass()
	if !some {
		return nil
	}
	consumer, err := r.subscribe(ctx, from.sequence)
	if err != nil {
		return err
	}
	for begun := from; ; begun = from {
		if more, err := r.passUnseen(ctx, &from); !more || err != nil {
			return err
		}
		if from == begun {
			break
		}
		if consumer, err = r.subscribe(ctx, from.sequence); err != nil {
			return err
		}
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(max(500, 2*r.cfg.BatchSize)), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("read stream %s: %w", r.cfg.Stream, err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	var received uint64
	wait, doubt := r.cfg.QuietTime, error(nil)
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(wait))
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrTimeout):
			if doubt != nil {
				return doubt
			}
			if doubt = r.atEnd(ctx); doubt != nil {
				wait = time.Millisecond // messages that came during the look are there
			}
			continue
		case err != nil:
			return fmt.Errorf("read stream %s: %w", r.cfg.Stream, err)
		}
		wait, doubt = r.cfg.QuietTime, nil
		meta, err := msg.Metadata()
		if err != nil {
			continue // no message of the stream
		}
		if received++; received != meta.Sequence.Consumer {
			return errLostOnTheWay
		}
		if !r.hand(ctx, msg, meta) {
			return nil
		}
	}
}

// passUnseen hands on messages that the client keeps to itself, up to the first that it delivers. It returns false when the pass is to end.
func (r *reader) passUnseen(ctx context.Context, from *mark) (more bool, err error) {
	for {
		ask, cancel := context.WithTimeout(ctx, patience)
		msg, err := unseen.Next(ask, r.js, r.cfg.Stream, r.cfg.Filter, from.sequence)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil || msg == nil:
			return true, err
		}
		meta := msg.Place()
		if !r.hand(ctx, msg, meta) {
			return false, nil
		}
		*from = mark{meta.Sequence.Stream, meta.Timestamp.UnixNano()}
	}
}

// beginPass returns the position to begin at; some is false when no lane needs anything.
func (r *reader) beginPass(cancel context.CancelFunc) (from mark, some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes {
		if l.leaving {
			continue
		}
		if l.ready { // the last pass had nothing more for it
			l.enqueued = later(l.enqueued, r.read)
		}
		if !some || l.enqueued.sequence < from.sequence {
			from, some = l.enqueued, true
		}
	}
	if !some {
		return mark{}, false
	}
	r.furthest = mark{}
	for _, l := range r.lanes {
		l.ready = true
		r.furthest = later(r.furthest, l.enqueued)
	}
	if from.sequence < r.read.sequence {
		r.box.metrics.rewinds.Inc()
	}
	r.read, r.endPass = from, cancel
	return from, true
}

func (r *reader) closePass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endPass = nil
}

// heartbeat is the interval of an idle server's signs of life. A silence of two ends the pass.
const heartbeat = time.Second

// patience bounds a look at the stream, and the creation of a consumer: a reader asks again after its server went.
const patience = 3 * time.Second

// subscribe makes a consumer behind a position. A stream that was made anew begins anew. The client's ordered consumers would do, but wait 10
// s for a server that is gone.
func (r *reader) subscribe(ctx context.Context, from uint64) (jetstream.Consumer, error) {
	r.mu.Lock()
	furthest, created := r.furthest, r.created
	r.mu.Unlock()
	state, err := r.prepare(ctx, furthest, created)
	if err != nil {
		return nil, err
	}
	if state.lanes != r.count {
		return nil, fmt.Errorf("%w: consumer %s has %d lanes now, not %d", ErrConfig, r.box.cfg.Name, state.lanes, r.count)
	}
	r.mu.Lock()
	r.created = state.created
	r.mu.Unlock()
	if state.rewound || !created.IsZero() && !created.Equal(state.created) {
		r.quitAll() // their messages are not those of the stream
		return nil, errRewound
	}
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrStream, r.cfg.Stream, err)
	}
	if first := stream.CachedInfo().State.FirstSeq; from > 0 && first > from+1 {
		r.log.ErrorContext(ctx, "the stream has removed what was not read", "from", from+1, "to", first-1)
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: r.cfg.Filter, DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: time.Minute,
	}
	if from > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from+1
	}
	attempt, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	consumer, err := r.js.CreateConsumer(attempt, r.cfg.Stream, config)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", r.cfg.Stream, err)
	}
	return consumer, nil
}

// atEnd returns nil where the stream confirms that all of it was read and is still there. A refused look proves nothing.
func (r *reader) atEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // for two requests
	defer cancel()
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return fmt.Errorf("ask stream %s for its end: %w", r.cfg.Stream, err)
	}
	end, err := unseen.Last(ctx, r.js, r.cfg.Stream, r.cfg.Filter)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	r.mu.Lock()
	defer r.mu.Unlock()
	if info.State.LastSeq < r.read.sequence || end > r.read.sequence || !r.created.Equal(info.Created) {
		return errStandsStill
	}
	return nil
}

// laneKey returns the key of the messages that stay together. Config.LaneKey gets the body as the producer wrote it.
func (r *reader) laneKey(m message.Message) string {
	if r.cfg.LaneKey == nil {
		return m.Stream
	}
	plain, err := r.box.decode(m, r.box.cfg.MaxPayload)
	if err != nil {
		return m.Stream // it will be dead there
	}
	return r.cfg.LaneKey(plain)
}

// readAhead bounds the messages that a reader holds and has not settled, in bytes; one message always fits.
const readAhead = 64 << 20

// itemSize stands for a message's memory beside its body.
const itemSize = 1 << 10

// admit finds the message's lane, nil when there is none here, and waits for room. more is false when the pass is to end.
func (r *reader) admit(ctx context.Context, number int, it *item) (to *lane, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if ctx.Err() != nil || len(r.lanes) == 0 {
			r.endPass = nil // a lane that is taken from now on needs another pass
			return nil, false
		}
		l := r.lanes[number]
		if l == nil || l.leaving || !l.ready || it.at.sequence <= l.enqueued.sequence {
			r.read = it.at
			return nil, true
		}
		if r.ahead == 0 || r.ahead+it.size <= readAhead {
			r.read, l.enqueued = it.at, it.at
			l.pending++
			l.ahead += it.size
			r.ahead += it.size
			return l, true
		}
		r.mu.Unlock()
		select {
		case <-r.room:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
}

// makeRoomLocked takes an admitted size back.
func (r *reader) makeRoomLocked(l *lane, size int) {
	l.ahead -= size
	r.ahead -= size
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// hand gives a message to its lane, and waits while that has no room. It returns false when the pass is to end.
func (r *reader) hand(ctx context.Context, msg jetstream.Msg, meta *jetstream.MsgMetadata) bool {
	it := item{at: mark{meta.Sequence.Stream, meta.Timestamp.UnixNano()}, size: itemSize + len(msg.Data())}
	number := 0
	if it.m, it.bad = message.ParseEncoded(msg.Subject(), it.at.sequence, msg.Headers(), msg.Data()); it.bad == nil {
		it.bad = it.m.Check()
	}
	if it.bad != nil {
		it.m = message.Message{Subject: msg.Subject(), StreamSequence: it.at.sequence, Header: msg.Headers(), Payload: msg.Data()}
	} else {
		it.m.StoredAt = meta.Timestamp
		number = int(xxhash.Sum64String(r.laneKey(it.m)) % uint64(r.count))
	}
	l, more := r.admit(ctx, number, &it)
	if l == nil {
		return more
	}
	select {
	case l.items <- it:
	case <-l.stop: // the next reader reads it again
	case <-l.done:
	}
	return true
}
