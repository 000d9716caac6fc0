package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

// errEnds is returned to a handler that wants to end the inbox's transaction.
var errEnds = errors.New("a handler must not end the inbox's transaction")

// guarded is a transaction that its user cannot end.
type guarded struct{ pgx.Tx }

func (guarded) Commit(context.Context) error { return errEnds }

func (guarded) Rollback(context.Context) error { return errEnds }

// errPanic marks what a handler that panicked is said to have returned.
var errPanic = errors.New("the handler panicked")

// errPassedOver: a statement of the handler failed, and the handler said nothing.
var errPassedOver = errors.New("the handler passed over an error of the database")

// errRowsOpen: the handler did not read the answer of a statement to its end, nor close it.
var errRowsOpen = errors.New("the handler left rows open")

// call runs a handler under its time limit. A failure that is the handler's own is a *handlerError; any other error
// means that the database or the caller's context is to blame.
func (i *Inbox) call(ctx context.Context, tx pgx.Tx, handle CallHandler) (result []byte, err error) {
	limited, cancel := context.WithTimeout(ctx, i.cfg.HandlerTimeout)
	defer cancel()
	began := time.Now()
	overdue := time.AfterFunc(i.cfg.HandlerTimeout+idleMargin, func() {
		i.metrics.overdue.Inc()
		i.cfg.Logger.ErrorContext(ctx, "a handler goes on although its context has ended; nothing but it can end this",
			"consumer", i.cfg.Name, "limit", i.cfg.HandlerTimeout)
	})
	defer func() {
		if !overdue.Stop() {
			i.metrics.overdue.Dec()
		}
	}()
	func() {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errPanic, p)
			}
		}()
		result, err = handle(limited, guarded{tx})
	}()
	i.metrics.handler.Observe(time.Since(began).Seconds())
	switch {
	case err == nil && ctx.Err() == nil && limited.Err() != nil:
		return nil, &handlerError{cause: fmt.Errorf("the handler took longer than %s: %w", i.cfg.HandlerTimeout, limited.Err())}
	case err == nil:
		return result, leftBehind(tx.Conn().PgConn(), result)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("inbox: handler: %w", context.Cause(ctx))
	case limited.Err() != nil:
		return nil, &handlerError{cause: fmt.Errorf("the handler took longer than %s: %w", i.cfg.HandlerTimeout, err)}
	case !IsFinal(err) && (outage(err) || tx.Conn().IsClosed()):
		return nil, fmt.Errorf("inbox: handler: %w", err)
	}
	return nil, &handlerError{cause: err}
}

// leftBehind refuses what a handler that returned no error did to the session.
func leftBehind(session *pgconn.PgConn, result []byte) error {
	switch {
	case session.IsClosed():
		return nil // what comes next says so
	case session.IsBusy():
		return &handlerError{cause: errRowsOpen}
	case session.TxStatus() == 'E':
		return &handlerError{cause: errPassedOver}
	case session.TxStatus() != 'T': // its effects can be committed: trying again could repeat them
		return &handlerError{cause: Final(errEnds)}
	case len(result) > maxResult:
		return &handlerError{cause: Final(fmt.Errorf("the result has %d bytes; %d are allowed", len(result), maxResult))}
	}
	return nil
}

// maxResult bounds what a handler returns, in bytes.
const maxResult = 64 << 20

// outage tells whether an answer of the database says nothing about the statement: it goes away, has no room, or two
// transactions were in each other's way.
func outage(err error) bool {
	const cancelled = "57014" // by statement_timeout for example
	return !pg.Refused(err, cancelled) && pg.Refused(err, "08", "53", "57", "58", "40001", "40P01", "55P03", "25P03", "25P04", "25006")
}

// blame finds out whether the handler is to blame for a statement of the inbox that failed behind it: something that the
// handler did, checked only now, refuses it.
func (i *Inbox) blame(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(answer.Code, "23") &&
		(answer.SchemaName != i.cfg.Schema || !slices.Contains(pg.InboxTables, answer.TableName)) {
		return &handlerError{index: -1, cause: err}
	}
	return err
}

// commit ends the transaction. What PostgreSQL refuses then, and is no outage, a handler left: an error that it passed over,
// or something that a deferred constraint or trigger does not accept.
func (i *Inbox) commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("inbox: commit: %w", err)
	if errors.Is(err, pgx.ErrTxCommitRollback) || pg.Refused(err, "") && !outage(err) {
		return &handlerError{index: -1, cause: err}
	}
	return err
}
