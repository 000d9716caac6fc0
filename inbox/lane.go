package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

type item struct {
	m  message.Message
	at mark
	// size is the item's share of readAhead, in bytes.
	size int
	// bad is the error in the headers of m.
	bad error
}

// lane (ADR 16) is a lane that this reader has, or had until a moment ago.
type lane struct {
	number int
	epoch  int64
	items  chan item
	// stop asks the worker to end after its transaction; done is closed when it has.
	stop, done chan struct{}

	// careful counts the messages that are still begun one by one, with a mark; known is the least position that the database must have. Only
	// the worker uses them.
	careful int
	known   uint64

	// Under the reader's mutex:

	// ready: the pass that is under way began before the position that the lane needs.
	ready bool
	// leaving: the lane gets no more messages.
	leaving bool
	// enqueued is the last sequence that the lane got or that has nothing for it; settled the position in the database.
	enqueued, settled mark
	// pending counts messages that the lane got and has not dealt with; ahead is their size.
	pending, ahead int
}

func newLane(number int, epoch int64, position mark, room int) *lane {
	return &lane{
		number: number, epoch: epoch, enqueued: position, settled: position,
		items: make(chan item, room), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// work deals with a lane's messages until it is asked to stop or the lane has another reader.
func (r *reader) work(ctx context.Context, l *lane) {
	defer close(l.done)
	for {
		items := l.next(ctx, r.cfg.BatchSize)
		if len(items) == 0 {
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := r.deal(ctx, l, items)
		<-r.slots
		if err != nil {
			if errors.Is(err, ErrFenced) {
				r.box.metrics.fenced.Inc()
				r.log.WarnContext(ctx, "lane has another reader, or the database has forgotten its position", "lane", l.number, "epoch", l.epoch)
			}
			r.quit(l)
			return
		}
		r.mu.Lock()
		l.pending -= len(items)
		for _, it := range items {
			r.makeRoomLocked(l, it.size)
			if it.bad == nil { // the transaction stored this position
				l.settled = later(l.settled, it.at)
			}
		}
		r.mu.Unlock()
	}
}

// next waits for a message and takes those that are there, up to limit; nil when the lane is to stop.
func (l *lane) next(ctx context.Context, limit int) []item {
	select {
	case <-l.stop:
		return nil
	default:
	}
	var items []item
	select {
	case <-ctx.Done():
		return nil
	case <-l.stop:
		return nil
	case first := <-l.items:
		items = append(items, first)
	}
	for len(items) < limit {
		select {
		case more := <-l.items:
			items = append(items, more)
		default:
			return items
		}
	}
	return items
}

// deal brings items into the database, however long that is away. It returns ErrFenced, or the context's cause.
func (r *reader) deal(ctx context.Context, l *lane, items []item) error {
	var messages []message.Message
	for _, it := range items {
		if it.bad == nil {
			messages = append(messages, it.m)
			continue
		}
		keep := func() error { return r.keepMalformed(ctx, it.m, it.bad) }
		if err := r.insist(ctx, l, keep); err != nil {
			return err
		}
	}
	for ; l.careful > 0 && len(messages) > 0; l.careful-- {
		if err := r.insist(ctx, l, func() error { return r.dealAlone(ctx, l, messages[0]) }); err != nil {
			return err
		}
		messages = messages[1:]
	}
	return r.insist(ctx, l, func() error {
		b := r.batch(l)
		began := time.Now()
		err := b.run(ctx, messages)
		r.box.metrics.transaction.Observe(time.Since(began).Seconds())
		messages = messages[len(b.outcomes):]
		return err
	})
}

func (r *reader) batch(l *lane) batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.known = max(l.known, l.settled.sequence) // signs of life store it, too
	return batch{box: r.box, handle: r.handle, keep: r.keepMalformed, fence: &fence{lane: l.number, owner: r.id, epoch: l.epoch, ttl: r.cfg.LeaseTTL, known: &l.known}}
}

// The pauses between tries during an outage of the database.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// insist repeats do during an outage of the database. It does not wait for a lane that is to stop.
func (r *reader) insist(ctx context.Context, l *lane, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil || errors.Is(err, ErrFenced) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.box.metrics.troubled.Inc()
		r.log.WarnContext(ctx, "messages are not dealt with; trying again", "lane", l.number, "error", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.stop:
			return err
		case <-time.After(pause):
		}
	}
}

// keepMalformed stores a message that cannot be read or recorded.
func (r *reader) keepMalformed(ctx context.Context, m message.Message, bad error) error {
	envelope, err := json.Marshal(m.Header)
	if err != nil {
		envelope = []byte("{}")
	}
	_, err = r.box.sql.AddMalformed.Exec(ctx, r.box.db, pg.Args{
		"consumer": r.box.cfg.Name, "sequence": int64(m.StreamSequence), "subject": text(m.Subject), "reason": reason(bad),
		"envelope": envelope, "payload": notNil(m.Payload),
	})
	if err != nil {
		return fmt.Errorf("inbox: keep a malformed message: %w", err)
	}
	r.box.metrics.malformed.Inc()
	r.log.ErrorContext(ctx, "malformed message", "subject", m.Subject, "stream_sequence", m.StreamSequence, "error", bad)
	return nil
}
