package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errEnds is returned to a handler that wants to end the inbox's transaction.
var errEnds = errors.New("a handler must not end the inbox's transaction")

// guarded is a transaction that its user cannot end.
type guarded struct{ pgx.Tx }

// Commit refuses.
func (guarded) Commit(context.Context) error { return errEnds }

// Rollback refuses.
func (guarded) Rollback(context.Context) error { return errEnds }

// errPanic marks what a handler that panicked is said to have returned.
var errPanic = errors.New("the handler panicked")

// errPassedOver: a statement of the handler failed, and the handler said nothing.
var errPassedOver = errors.New("the handler passed over an error of the database")

// call runs a handler under its time limit. A failure that is the handler's own is a *handlerError; any other error
// means that the database or the caller's context is to blame.
func (i *Inbox) call(ctx context.Context, tx pgx.Tx, handle CallHandler) (result []byte, err error) {
	limited, cancel := context.WithTimeout(ctx, i.cfg.HandlerTimeout)
	defer cancel()
	began := time.Now()
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
	case err == nil && tx.Conn().PgConn().TxStatus() == 'E':
		return nil, &handlerError{cause: errPassedOver}
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("inbox: handler: %w", context.Cause(ctx))
	case limited.Err() != nil:
		return nil, &handlerError{cause: fmt.Errorf("the handler took longer than %s: %w", i.cfg.HandlerTimeout, err)}
	case !IsFinal(err) && (outage(err) || tx.Conn().IsClosed()):
		return nil, fmt.Errorf("inbox: handler: %w", err)
	}
	return nil, &handlerError{cause: err}
}

// outage tells whether an answer of the database says nothing about the statement: it goes away, has no room, or two
// transactions were in each other's way.
func outage(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code {
	case "57014": // cancelled, by statement_timeout for example
		return false
	case "40001", "40P01", "55P03", "25P03", "25006":
		return true
	}
	for _, class := range []string{"08", "53", "57", "58"} {
		if strings.HasPrefix(answer.Code, class) {
			return true
		}
	}
	return false
}

// blame finds out whether a transaction could not be ended because of a handler: it passed over an error of the
// database, or left something that a deferred constraint refuses.
func (i *Inbox) blame(err error) error {
	var answer *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return &handlerError{index: -1, cause: fmt.Errorf("%w: %w", errPassedOver, err)}
	case !errors.As(err, &answer) || outage(err):
		return err
	case strings.HasPrefix(answer.Code, "23") && !strings.HasPrefix(answer.TableName, "inbox_"):
		return &handlerError{index: -1, cause: err}
	}
	return err
}
