package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/outbox"
)

// A window is the load of one round trip. Larger ones gain nothing more and delay the news of commits.
const (
	windowTransactions = 50
	windowEvents       = 500
	windowBytes        = 1 << 20
)

// window returns the number of next transactions that travel together. A paced import sends each alone, when it is due.
func (r *run) window(todo []missing) int {
	if r.config.Rate > 0 {
		return 1
	}
	n, events, bytes := 0, 0, 0
	for n < len(todo) && n < windowTransactions {
		events += len(todo[n].events)
		bytes += todo[n].bytes
		if n > 0 && (events > windowEvents || bytes > windowBytes) {
			break
		}
		n++
	}
	return n
}

// pipeline commits several transactions in one round trip: each has its own BEGIN and COMMIT, and after the first error the server skips
// the rest. With durable it returns when the disk has them, and with them all before.
func (r *run) pipeline(ctx context.Context, window []missing, durable bool) error {
	ctx, stop := finishing(ctx)
	defer stop()
	batch := &pgx.Batch{}
	committed := 0
	var refused error
	for i := range window {
		mark := len(batch.QueuedQueries)
		batch.Queue("BEGIN")
		silent := !slices.ContainsFunc(window[i].events, func(e outbox.Event) bool { return !e.AuditOnly })
		if silent && (!durable || i < len(window)-1) { // a published event may not be forgotten, by no standby either
			r.sql.RelaxCommit.Queue(batch, nil)
		}
		var appended []outbox.Appended
		keep := func(a []outbox.Appended) error { appended = a; return nil }
		if err := r.config.Producer.QueueAppend(batch, keep, window[i].events...); err != nil {
			batch.QueuedQueries = batch.QueuedQueries[:mark]
			refused = r.blame(&window[i], err)
			break
		}
		batch.Queue("COMMIT").Exec(func(pgconn.CommandTag) error {
			r.committed(&window[i], appended)
			committed++
			return nil
		})
	}
	if err := r.conn.SendBatch(ctx, batch).Close(); err != nil {
		return r.abort(ctx, window[committed:], err)
	}
	return refused
}

// abort ends the transaction that failed; nothing behind it was begun.
func (r *run) abort(ctx context.Context, rest []missing, cause error) error {
	var refused *pgconn.PgError
	if !errors.As(cause, &refused) || r.conn.Conn().IsClosed() {
		return r.at(rest[0].lines[0], fmt.Errorf("append transactions %d to %d: %w: %w",
			rest[0].number, rest[len(rest)-1].number, ErrUnknownOutcome, cause))
	}
	cause = r.blame(&rest[0], cause)
	if _, err := r.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return errors.Join(cause, fmt.Errorf("roll back: %w", err))
	}
	return cause
}

// finishing returns a context that ends only some time after its parent, so that a cancelled import can still learn its commits.
func finishing(parent context.Context) (context.Context, context.CancelFunc) {
	const grace = 5 * time.Second
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	timer := time.AfterFunc(time.Duration(1<<62), func() { cancel(context.Cause(parent)) })
	unhook := context.AfterFunc(parent, func() { timer.Reset(grace) })
	return ctx, func() {
		unhook()
		timer.Stop()
		cancel(nil)
	}
}
