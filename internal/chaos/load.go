package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
)

// Load is a producer of events of a made-up shop, one to four a transaction, 500 streams, whose outcomes it enters into a ledger.
type Load struct {
	Pool     *pgxpool.Pool
	Producer *outbox.Producer
	Ledger   *ledger.Ledger
	// Rate is events a second, above 0. Events that an outage prevented are not made up for.
	Rate float64
	// Topic of the events. Defaults to "shop".
	Topic string
	// Published returns the payload as workers publish it, if they change it. Defaults to the payload itself.
	Published func(context.Context, outbox.Event) []byte
	// Ring wakes the workers after a commit. Defaults to nothing: they poll.
	Ring func()
	// Unruly keeps one transaction of 16 open for up to 30 ms, so that later ones pass it, and rolls one of 16 back.
	Unruly bool
	// Outages expects the database to go away: a transaction that fails is then none of Run's errors.
	Outages bool
	// Refused gets the error of a transaction that the database refused: then Run goes on with the next. Defaults to nil: Run ends.
	Refused func(error)
}

const (
	generatedStreams = 500
	// transactionPatience bounds a transaction whose server does not answer.
	transactionPatience = 10 * time.Second
	// mostDawdled bounds the life of an unruly transaction.
	mostDawdled = 30 * time.Millisecond
	// mostArrears bounds the lag behind the rate that a load makes up for.
	mostArrears = 250 * time.Millisecond
)

// Run appends until ctx ends, which is no error. A transaction in flight then is finished: its outcome belongs into the ledger.
func (l *Load) Run(ctx context.Context) error {
	types := []string{"order.placed", "order.paid", "order.packed", "order.shipped"}
	due, made := time.Now(), 0
	for ctx.Err() == nil {
		events := make([]outbox.Event, 1+rand.IntN(4))
		for i := range events {
			order := rand.IntN(generatedStreams)
			events[i] = l.event(fmt.Sprintf("order-%d", order), types[rand.IntN(len(types))], fmt.Appendf(nil, `{"order":%d,"n":%d}`, order, made+i))
		}
		switch err := l.append(context.WithoutCancel(ctx), events); {
		case err != nil && l.Refused != nil && CertainlyNot(err):
			l.Refused(err)
		case err != nil && !l.Outages:
			return fmt.Errorf("generate: %w", err)
		}
		made += len(events)
		due = due.Add(time.Duration(float64(len(events)) / l.Rate * float64(time.Second)))
		if late := time.Since(due); late > mostArrears {
			due = due.Add(late)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
	}
	return nil
}

func (l *Load) event(stream, kind string, payload []byte) outbox.Event {
	return outbox.Event{StreamID: stream, Type: kind, Topic: cmp.Or(l.Topic, "shop"), Payload: payload}
}

const slowTransactions = 5

// Slow keeps transactions open that have drawn a sequence, one after the other, while others pass them. They append to streams whose names
// begin so, for which a trigger of the caller's takes its time.
func (l *Load) Slow(streams string) Mishap {
	return Mishap{Kind: "producer slow", Strike: func(ctx context.Context, random *rand.Rand) (Struck, error) {
		began := time.Now()
		for range slowTransactions {
			stream := fmt.Sprintf("%s-%d", streams, random.IntN(generatedStreams))
			if err := l.append(context.WithoutCancel(ctx), []outbox.Event{l.event(stream, "order.audited", []byte(`{}`))}); err != nil {
				return Struck{}, err
			}
		}
		return Struck{
			Text: fmt.Sprintf("held %d transactions open for %.1f s", slowTransactions, time.Since(began).Seconds()/slowTransactions),
			Then: "delivery went on",
		}, nil
	}}
}

func (l *Load) append(ctx context.Context, events []outbox.Event) error {
	ctx, cancel := context.WithTimeout(ctx, transactionPatience)
	defer cancel()
	tx, err := l.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	appended, err := l.Producer.AppendTx(ctx, tx, events...)
	if err != nil {
		return err
	}
	entries := l.Entries(ctx, events, appended)
	l.Ledger.Begin(entries)
	if l.Unruly {
		switch rand.IntN(16) {
		case 0:
			<-time.After(rand.N(mostDawdled))
		case 1:
			l.Ledger.Failed(entries)
			return tx.Rollback(ctx)
		}
	}
	err = tx.Commit(ctx)
	switch {
	case err == nil:
		l.Ledger.Committed(entries, time.Now())
		if l.Ring != nil {
			l.Ring()
		}
		return nil
	case CertainlyNot(err):
		l.Ledger.Failed(entries)
	default:
		l.Ledger.Unknown(entries)
	}
	return fmt.Errorf("commit: %w", err)
}

// Entries returns events in the ledger's form, without those that are not to be published.
func (l *Load) Entries(ctx context.Context, events []outbox.Event, appended []outbox.Appended) []ledger.Entry {
	entries := make([]ledger.Entry, 0, len(events))
	for i, e := range events {
		a := appended[i]
		if !a.Enqueued {
			continue
		}
		body := e.Payload
		if l.Published != nil {
			body = l.Published(ctx, e)
		}
		entries = append(entries, ledger.Entry{
			EventID: a.EventID, Stream: e.StreamID, Version: a.StreamVersion, Sequence: a.Sequence,
			Partition: a.Partition, BodyHash: ledger.HashBody(body),
		})
	}
	return entries
}

// CertainlyNot reports whether the server answered that COMMIT had no effect. A server that ends the session says nothing about it, and
// neither does pgconn.SafeToRetry: pgx reports a connection that broke before the answer as one that was closed before.
func CertainlyNot(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Severity == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback)
}
