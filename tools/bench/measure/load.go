package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
)

const (
	// producers is the number of connections that append at a steady rate.
	producers = 16
	// mostTransactions a second; above it they hold several events, so that the relay is measured and not the append.
	mostTransactions = 1000
)

// load appends events at a rate, and a subscriber hears them.
type load struct {
	d        *database
	n        *broker
	producer *outbox.Producer
	order    ledger.Ordering
	rate     int  // events a second
	each     int  // events of a transaction
	made     int  // events, of all phases
	silent   bool // producers do not ring after a commit

	mu      sync.Mutex
	checker *ledger.Checker // of the present phase
	commits []commit        // of that phase
}

func newLoad(d *database, n *broker, order ledger.Ordering, rate int) (*load, error) {
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return nil, err
	}
	return &load{d: d, n: n, producer: producer, order: order, rate: rate, each: max(1, rate/mostTransactions)}, nil
}

// subscribe passes messages stored from now on to the checker of the phase, until stop is called, which returns the
// subscription's error.
func (l *load) subscribe(ctx context.Context) (stop func() error, err error) {
	next, err := l.n.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	consumer, err := l.n.stream.OrderedConsumer(ctx, eventsFrom(next))
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			msg, err := messages.Next()
			at := time.Now()
			switch {
			case errors.Is(err, jetstream.ErrMsgIteratorClosed):
				ended <- nil
				return
			case errors.Is(err, jetstream.ErrNoHeartbeat):
				continue // the iterator asks again
			}
			if err == nil {
				err = l.receive(msg, at)
			}
			if err != nil {
				ended <- fmt.Errorf("subscribe: %w", err)
				return
			}
		}
	}()
	return func() error {
		messages.Stop()
		return <-ended
	}, nil
}

func (l *load) receive(msg jetstream.Msg, at time.Time) error {
	m, err := ledger.ReadMessage(msg)
	if err != nil {
		return err
	}
	m.ReceivedAt = at
	l.mu.Lock()
	checker := l.checker
	l.mu.Unlock()
	if checker != nil {
		checker.Receive(m)
	}
	return nil
}

// phase produces for a while and returns the checker's report when each event was received.
func (l *load) phase(ctx context.Context, length time.Duration) (ledger.Report, error) {
	book := ledger.New()
	checker, err := ledger.NewChecker(ledger.Config{Ledger: book, Ordering: l.order})
	if err != nil {
		return ledger.Report{}, err
	}
	from, err := l.n.next(ctx)
	if err != nil {
		return ledger.Report{}, err
	}
	l.mu.Lock()
	l.checker, l.commits = checker, nil
	l.mu.Unlock()
	failed := make(chan error, producers)
	began := time.Now()
	for i := range producers {
		go func() { failed <- l.produce(ctx, book, i, began, length) }()
	}
	for range producers {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return ledger.Report{}, err
	}
	l.made += l.rate * int(length/time.Millisecond) / 1000
	book.Finish()
	if err := received(ctx, checker); err != nil {
		return ledger.Report{}, errors.Join(err, l.explain(ctx, book, from))
	}
	return checker.Report(), verdict(checker.Report())
}

// errUnheard is a failure of the measurement: the stream holds events that the subscriber does not receive. A consumer on
// a replicated stream may stall after a change of leaders (nats-io/nats.go#2063).
var errUnheard = errors.New("the stream holds all events, and the subscriber does not receive them")

// explain returns why a phase's events, stored from a sequence on, were not received: errUnheard, or the faults of the
// stream.
func (l *load) explain(ctx context.Context, book *ledger.Ledger, from uint64) error {
	stored, err := l.n.readBack(ctx, from)
	if err != nil {
		return err
	}
	if err := judge(ledger.Config{Ledger: book, Ordering: l.order}, stored); err != nil {
		return err
	}
	return errUnheard
}

// received waits until each event was, while more come: a rate above capacity makes events late, not lost.
func received(ctx context.Context, checker *ledger.Checker) error {
	for before := -1; ; {
		patient, cancel := context.WithTimeoutCause(ctx, stallPatience/2, errors.New("the subscriber receives nothing more"))
		err := checker.Wait(patient)
		cancel()
		now := checker.Report().Received
		if err == nil || ctx.Err() != nil || now == before {
			return err
		}
		before = now
	}
}

// produce appends every producers-th transaction of the schedule, each when it is due.
func (l *load) produce(ctx context.Context, book *ledger.Ledger, which int, began time.Time, length time.Duration) error {
	conn, err := l.d.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	defer conn.Release()
	total := l.rate * int(length/time.Millisecond) / 1000 / l.each
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := which; n < total; n += producers {
		due := began.Add(time.Duration(float64(n*l.each) / float64(l.rate) * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := l.append(ctx, conn.Conn(), book, l.made+n*l.each, which); err != nil {
			return err
		}
	}
	return nil
}

// append commits one transaction, notes the time, and rings.
func (l *load) append(ctx context.Context, conn *pgx.Conn, book *ledger.Ledger, first, which int) error {
	events := make([]outbox.Event, l.each)
	for i := range events {
		e := l.d.data.at(first + i)
		// Streams of their own, so that producers do not wait for each other.
		events[i] = outbox.Event{StreamID: e.stream + "@" + strconv.Itoa(which), Type: e.kind, Payload: e.payload, OccurredAt: e.occurred}
	}
	entries := make([]ledger.Entry, 0, len(events))
	var named []byte
	var batch pgx.Batch // without BEGIN it is one transaction
	err := l.producer.QueueAppend(&batch, func(appended []outbox.Appended) error {
		for i, a := range appended {
			entries = append(entries, ledger.Entry{
				EventID: a.EventID, Stream: events[i].StreamID, Version: a.StreamVersion, Sequence: a.Sequence, Partition: a.Partition,
				BodyHash: ledger.HashBody(events[i].Payload),
			})
		}
		named = outbox.BellBody(appended...)
		return nil
	}, events...)
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	l.committed(book, entries, time.Now())
	if l.silent {
		return nil
	}
	if err := l.n.nc.Publish(outbox.BellSubject("public"), named); err != nil {
		return fmt.Errorf("ring the bell: %w", err)
	}
	return nil
}

func (l *load) committed(book *ledger.Ledger, entries []ledger.Entry, at time.Time) {
	book.Committed(entries, at)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.commits = append(l.commits, commit{e.Sequence, at})
	}
}

// commit is an event with the time of its commit's return.
type commit struct {
	sequence int64
	at       time.Time
}

// writersWait returns each event's wait, after its commit, for the last event with an earlier sequence: the least latency
// of a relay that keeps the order of sequences and learns an event's place only by its commit. It sorts the commits, and
// returns milliseconds in ascending order.
func writersWait(commits []commit) []float64 {
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.sequence, b.sequence) })
	waits := make([]float64, len(commits))
	var last time.Time
	for i, c := range commits {
		if c.at.After(last) {
			last = c.at
		}
		waits[i] = float64(last.Sub(c.at)) / float64(time.Millisecond)
	}
	slices.Sort(waits)
	return waits
}

// quantile returns the least of ascending values that a share q, above 0 and at most 1, does not exceed; 0 for none.
func quantile(ascending []float64, q float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[int(math.Ceil(q*float64(len(ascending))))-1]
}
