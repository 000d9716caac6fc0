package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// syncer brings documents to an index.
type syncer struct {
	store *store
	index index
	log   *slog.Logger
	lease time.Duration // of a process on a part of the documents; 0: 5 s
}

// syncTx brings one document to an index as it is now. The lock is held until tx ends, so that nobody else writes an
// older state of it later, or brings it back after it was deleted.
func (s *syncer) syncTx(ctx context.Context, tx pgx.Tx, to index, id string) error {
	d, ok, err := lockTx(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case !ok:
		return to.remove(ctx, id)
	}
	return to.put(ctx, d)
}

// handle is the inbox's handler.
func (s *syncer) handle(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	id, ok := documentOf(m.Stream)
	if !ok {
		return nil, inbox.Final(fmt.Errorf("stream %q is no document's", m.Stream))
	}
	err := s.syncTx(ctx, tx, s.index, id)
	if errors.Is(err, errRefused) {
		return nil, inbox.Final(err)
	}
	return nil, err
}

// inboxConfig says how failures of the index are dealt with. It is tried for ever: an index that is away is no fault of
// the document's, and what it refuses for good is dead at once.
//
// Every index has an inbox of its own: two that shared one would share the events.
func inboxConfig(in index, log *slog.Logger, backoff, most time.Duration) inbox.Config {
	return inbox.Config{
		Name: "searchsync/" + in.name(), Logger: log, MaxAttempts: inbox.NoLimit, HandlerTimeout: 30 * time.Second,
		BackoffBase: backoff, BackoffMax: most,
	}
}

// consume keeps the index in step until the context ends, or its connections are closed for good.
func (s *syncer) consume(ctx context.Context, nc *nats.Conn, box *inbox.Inbox) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// A batch holds its documents' locks until its commit, so it is small.
	consumer, err := inbox.NewConsumer(box, js, s.handle, inbox.ConsumerConfig{Filter: documentFilter, BatchSize: 10, Workers: 8, LeaseTTL: cmp.Or(s.lease, 5*time.Second)})
	if err != nil {
		return err
	}
	var retries sync.WaitGroup
	defer retries.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	for range retryWorkers {
		retries.Go(func() { s.retry(ctx, box) })
	}
	for ctx.Err() == nil {
		if err := consumer.Run(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, inbox.ErrConfig) || errors.Is(err, inbox.ErrClosed) {
				return err
			}
			s.log.Warn("the consumer begins again", "error", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

const (
	// retryWorkers is how many parked documents are tried at once: the index is slow, and the consumer tries one at a time.
	retryWorkers  = 4
	retryInterval = 100 * time.Millisecond
)

// retry tries parked documents that are due, until the context ends.
func (s *syncer) retry(ctx context.Context, box *inbox.Inbox) {
	for pause(ctx, retryInterval) {
		if _, err := box.RetryDue(ctx, 1000, s.handle); err != nil && ctx.Err() == nil {
			s.log.Warn("parked documents could not be tried", "error", err)
		}
	}
}

// pause waits, and tells whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
