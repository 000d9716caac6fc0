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

// errPanic marks the error that stands for a handler's panic.
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

// leftBehind refuses effects on the session of a handler that returned no error.
func leftBehind(session *pgconn.PgConn, result []byte) error {
	switch {
	case session.IsClosed():
		return nil // the next statement says so
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

// maxResult bounds a handler's result, in bytes.
const maxResult = 64 << 20

// outage reports whether a database's error says nothing about the statement: it goes away, has no room, or two transactions were in each
// other's way.
func outage(err error) bool {
	const cancelled = "57014" // by statement_timeout for example
	return !pg.Refused(err, cancelled) && pg.Refused(err, "08", "53", "57", "58", "40001", "40P01", "55P03", "25P03", "25P04", "25006")
}

// blame finds out whether an effect of the handler, checked only now, made a later statement of the inbox fail.
func (i *Inbox) blame(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(answer.Code, "23") &&
		(answer.SchemaName != i.cfg.Schema || !slices.Contains(pg.InboxTables, answer.TableName)) {
		return &handlerError{index: -1, cause: err}
	}
	return err
}

// commit ends the transaction. A refusal that is no outage is the handler's: an error that it passed over, or a row that a deferred
// constraint or trigger refuses.
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
