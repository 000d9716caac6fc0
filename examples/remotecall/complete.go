package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// callback takes a result inside the transaction that removes the call. What it returns as an error rolls both back.
type callback func(ctx context.Context, tx pgx.Tx, r result) error

// callbackError says that a callback failed, and not the database around it.
type callbackError struct{ cause error }

func (e *callbackError) Error() string { return "callback: " + e.cause.Error() }
func (e *callbackError) Unwrap() error { return e.cause }

// complete runs the callback and removes the call, in one transaction. It tells whether the call was still there: one
// that somebody deleted meanwhile, that another caller completed, or whose answer is stored already and another one, has
// no callback.
func (c *caller) complete(ctx context.Context, onResult string, r result) (present bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout) // a callback that hangs fails like any other
	defer cancel()
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // without effect after a commit
	done, err := tx.Exec(ctx, `DELETE FROM remote_calls WHERE call_id = $1 AND (outcome IS NULL OR outcome = $2)`, r.ID, r.Outcome)
	if err != nil || done.RowsAffected() == 0 {
		return false, err
	}
	if err := c.callBack(ctx, tx, onResult, r); err != nil {
		if tx.Conn().IsClosed() && ctx.Err() == nil {
			return true, err // the database went away, which is not the callback's fault
		}
		return true, &callbackError{cause: err}
	}
	err = tx.Commit(ctx)
	var refused *pgconn.PgError
	if errors.As(err, &refused) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return true, &callbackError{cause: err} // a deferred constraint, an error that it hid, or a transaction that it ended
	}
	return true, err
}

// callBack runs the callback and turns a panic into an error.
func (c *caller) callBack(ctx context.Context, tx pgx.Tx, name string, r result) (err error) {
	run, ok := c.cfg.Callbacks[name]
	if !ok {
		return fmt.Errorf("there is no callback %q", name)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run(ctx, tx, r)
}

// finish completes a call with its last word. If the callback fails, the word is kept: the target is never asked again
// for a call that it has answered.
func (c *caller) finish(ctx context.Context, onResult string, r result) error {
	present, err := c.complete(ctx, onResult, r)
	var failed *callbackError
	switch {
	case errors.As(err, &failed) && ctx.Err() == nil:
		return c.keep(ctx, r, failed)
	case err != nil:
		return fmt.Errorf("complete call %d: %w", r.ID, err)
	case !present:
		c.log.Warn("the call was gone when its answer came", "call_id", r.ID, "target", r.Target, "outcome", r.Outcome)
	case r.Outcome == outcomeOutdated:
		c.log.Error("the target has gone past this call", "call_id", r.ID, "target", r.Target, "answer", excerpt(r.Answer))
	default:
		c.log.Info("call finished", "call_id", r.ID, "target", r.Target, "outcome", r.Outcome)
	}
	return nil
}

// keep stores the last word beside the call until its callback succeeds. After CallbackAttempts failures the callback
// is dead: the row stays for a person and nothing waits for it.
func (c *caller) keep(ctx context.Context, r result, failed *callbackError) error {
	var failures int
	var dead bool
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE remote_calls SET outcome = $2, answer = $3, callback_errors = callback_errors + 1, last_error = $4
			WHERE call_id = $1 AND (outcome IS NULL OR outcome = $2) RETURNING callback_errors`,
			r.ID, r.Outcome, r.Answer, storable(failed.Error())).Scan(&failures)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		dead = failures >= c.cfg.CallbackAttempts
		_, err = tx.Exec(ctx, `UPDATE remote_calls SET callback_at = clock_timestamp() + $2::interval,
			dead_at = CASE WHEN $3 THEN clock_timestamp() END WHERE call_id = $1`, r.ID, c.cfg.backoff(failures), dead)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the answer to call %d: %w", r.ID, err)
	}
	c.log.Warn("the callback failed", "call_id", r.ID, "target", r.Target, "failures", failures, "dead", dead, "error", failed)
	return nil
}

// requeue gives dead callbacks of one call, or of all when id is 0, another round of attempts, and returns how many.
func requeue(ctx context.Context, pool *pgxpool.Pool, id int64) (int64, error) {
	done, err := pool.Exec(ctx, `UPDATE remote_calls SET dead_at = NULL, callback_errors = 0, callback_at = clock_timestamp()
		WHERE dead_at IS NOT NULL AND ($1::bigint = 0 OR call_id = $1)`, id)
	return done.RowsAffected(), err
}

// storable is the beginning of a text, without what PostgreSQL refuses in one.
func storable(text string) string {
	const most = 1000
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), most)], "\x00", "?"), "?")
}

// backoff is how long to wait after so many failures, 1 or more.
func (c callerConfig) backoff(failures int) time.Duration {
	d := c.FirstBackoff
	for i := 1; i < failures && d < c.LongestBackoff; i++ {
		d *= 2
	}
	return min(d, c.LongestBackoff)
}
