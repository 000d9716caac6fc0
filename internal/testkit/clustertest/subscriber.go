package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

const eventsFilter = "events.>"

// Subscriber gives every event of the stream to a checker.
type Subscriber struct {
	Checker *ledger.Checker

	js       jetstream.JetStream
	observer func(ledger.Message)
	running  sync.WaitGroup
	last     atomic.Uint64 // stream sequence
	messages atomic.Int64

	mu  sync.Mutex
	err error
}

// Subscribe reads the stream from its beginning until the test ends. observer, which may be nil, sees every message.
func (c *Cluster) Subscribe(t testing.TB, observer func(ledger.Message)) *Subscriber {
	t.Helper()
	ordering := ledger.ByPartition
	if c.setting("--ordering") == string(ledger.ByStream) {
		ordering = ledger.ByStream
	}
	checker, err := ledger.NewChecker(ledger.Config{
		Ledger: c.Ledger, Ordering: ordering, ContiguousVersions: true, AllowMoved: c.resized,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Subscriber{Checker: checker, js: c.NATS.JetStream(t), observer: observer}
	ctx, cancel := context.WithCancel(t.Context())
	s.running.Go(func() { s.follow(ctx) })
	t.Cleanup(func() { cancel(); s.running.Wait() })
	c.mu.Lock()
	c.subscriber = s
	c.mu.Unlock()
	return s
}

// follow reads, and begins again behind the last message when the broker was away.
func (s *Subscriber) follow(ctx context.Context) {
	for ctx.Err() == nil {
		var fatal fatalError
		if err := s.read(ctx); errors.As(err, &fatal) {
			s.mu.Lock()
			s.err = fatal
			s.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(readAgain):
		}
	}
}

const (
	// readAgain is the wait after a reading that broke off.
	readAgain = 50 * time.Millisecond
	// readPatience bounds the making of a consumer: a cluster without leader gives no answer.
	readPatience = 2 * time.Second
	// readHeartbeat is the interval of an idle server's signs of life; two missing ones break the reading off.
	readHeartbeat = time.Second
	// readQuiet without messages makes a new consumer: after a change of leaders the client may have no request left with the server and hear
	// its heartbeats all the same (nats-io/nats.go#2063).
	readQuiet = 5 * time.Second
)

// fatalError is an error that reading again does not cure.
type fatalError struct{ error }

func (s *Subscriber) read(ctx context.Context) error {
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{eventsFilter}, MaxResetAttempts: 1}
	if at := s.last.Load(); at > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, at+1
	}
	attempt, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	consumer, err := s.js.OrderedConsumer(attempt, natstest.StreamName, config)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(readHeartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		message, err := messages.Next(jetstream.NextMaxWait(readQuiet))
		if err != nil {
			return err
		}
		if err := s.receive(message); err != nil {
			return fatalError{err}
		}
	}
}

func (s *Subscriber) receive(message jetstream.Msg) error {
	m, err := ledger.ReadMessage(message)
	if err != nil {
		return err
	}
	s.Checker.Receive(m)
	if s.observer != nil {
		s.observer(m)
	}
	s.messages.Add(1)
	s.last.Store(m.StreamSequence)
	return nil
}

func (s *Subscriber) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Received returns the number of different events.
func (s *Subscriber) Received() int { return s.Checker.Report().Received }

// Messages returns the number of messages. It costs less than Received.
func (s *Subscriber) Messages() int { return int(s.messages.Load()) }

// WaitReceived waits until that many more messages are received than now.
func (s *Subscriber) WaitReceived(t testing.TB, more int) {
	t.Helper()
	goal := s.Messages() + more
	Until(t, fmt.Sprintf("%d messages are received", goal), func(context.Context) (bool, error) {
		return s.Messages() >= goal, s.failure()
	}, func() string { return fmt.Sprintf("%d are", s.Messages()) })
}

// WaitEnd waits until everything that the stream holds now was received.
func (s *Subscriber) WaitEnd(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	message, err := s.js.Stream(ctx, natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := message.GetLastMsgForSubject(ctx, eventsFilter)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	Until(t, "the subscriber is at the stream's end", func(context.Context) (bool, error) {
		return s.last.Load() >= stored.Sequence, s.failure()
	}, func() string { return fmt.Sprintf("it is at %d of %d", s.last.Load(), stored.Sequence) })
}
