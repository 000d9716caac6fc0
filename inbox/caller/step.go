package caller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/pg"
)

// underWay is a call with its id.
type underWay struct {
	call    inbox.Call
	queued  int64
	request []byte
	copied  string // the copy of the database that it was read from
}

// errMoved: another server answers than the one that was compared, or it was started again or restored.
var errMoved = errors.New("the database is another server, or was started again or restored")

// step has one call answered; more is false where none waits.
func (c *Caller) step(ctx context.Context) (more bool, err error) {
	var hidden bool
	err = c.sql.Waits.Row(ctx, c.db, pg.Args{"sender": c.cfg.Name}).Scan(&more, &hidden)
	if err = cmp.Or(err, pg.Hidden(hidden, "inbox_calls")); err != nil || !more {
		return false, err
	}
	u, err := c.take(ctx)
	if errors.Is(err, errMoved) { // another process may have sent forgotten calls
		return c.compare(ctx)
	}
	if err != nil || u.queued == 0 {
		return false, err
	}
	attempt, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	result, said := c.receiver.Call(attempt, u.call, u.request)
	cancel()
	err = said
	switch {
	case errors.Is(said, ErrOutdated):
		err = c.end(ctx, u, func(pgx.Tx) error {
			return fmt.Errorf("%w: call %d, which has no answer here, is outdated there", ErrForgotten, u.call.ID)
		})
	case said == nil || inbox.IsFinal(said):
		err = c.end(ctx, u, func(tx pgx.Tx) error { return c.answered(ctx, tx, u.request, result, said) })
	}
	switch {
	case errors.Is(err, errMoved): // the number may be another call's there
		return c.compare(ctx)
	case err == nil || errors.Is(err, ErrForgotten) || ctx.Err() != nil:
		return err == nil, err
	}
	args := pg.Args{"sender": c.cfg.Name, "queued": u.queued, "reason": strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "\uFFFD")}
	if _, told := c.sql.Failed.Exec(ctx, c.db, args); told != nil {
		err = errors.Join(err, told)
	}
	return false, err
}

// take finds the call to send, and commits its id if it has none.
func (c *Caller) take(ctx context.Context) (u underWay, err error) {
	err = pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		last, err := c.lockCompared(ctx, tx)
		if err != nil {
			return err
		}
		err = c.sql.Head.Row(ctx, tx, pg.Args{"sender": c.cfg.Name, "last": last.queued}).Scan(&u.queued, &u.request)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another process was faster
		}
		if err != nil {
			return fmt.Errorf("caller: next call: %w", err)
		}
		u.call = last.call
		if u.queued == last.queued {
			return nil
		}
		u.call.ID++
		return c.number(ctx, tx, u)
	})
	if err != nil || u.queued == 0 {
		return u, err
	}
	if c.sent.call == u.call && c.sent.queued != u.queued {
		return u, fmt.Errorf("%w: id %d was another call's", ErrForgotten, u.call.ID)
	}
	if err = inOrder(c.sent.call, u.call); err == nil {
		c.sent = u
	}
	return u, err
}

// lock takes the sender's row, and returns the last call that was sent.
func (c *Caller) lock(ctx context.Context, tx pgx.Tx) (last underWay, err error) {
	if _, err := c.sql.AddCaller.Exec(ctx, tx, pg.Args{"sender": c.cfg.Name}); err != nil {
		return last, fmt.Errorf("caller: add the sender: %w", pg.WithCure(err))
	}
	var set *string
	last.call.Sender = c.cfg.Name
	if err := c.sql.LockCaller.Row(ctx, tx, pg.Args{"sender": c.cfg.Name, "idle": c.idle}).Scan(&last.call.Generation, &last.call.ID, &last.queued, &last.copied, &set, &set); err != nil {
		return last, fmt.Errorf("caller: lock the sender: %w", pg.WithCure(err))
	}
	return last, nil
}

// lockCompared is lock in the copy of the database that was compared with the receiver; errMoved in another one.
func (c *Caller) lockCompared(ctx context.Context, tx pgx.Tx) (last underWay, err error) {
	if last, err = c.lock(ctx, tx); err == nil && last.copied != c.copied {
		err = errMoved
	}
	return last, err
}

func (c *Caller) number(ctx context.Context, tx pgx.Tx, u underWay) error {
	_, err := c.sql.Number.Exec(ctx, tx, pg.Args{"sender": c.cfg.Name, "generation": u.call.Generation, "call": u.call.ID, "queued": u.queued})
	if err != nil {
		return fmt.Errorf("caller: number a call: %w", err)
	}
	return nil
}

// end removes a call and runs do with that, unless another process has ended it.
func (c *Caller) end(ctx context.Context, u underWay, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		if _, err := c.lockCompared(ctx, tx); err != nil {
			return err
		}
		removed, err := c.sql.Remove.Exec(ctx, tx, pg.Args{"sender": c.cfg.Name, "queued": u.queued, "idle": c.idle})
		if err != nil {
			return fmt.Errorf("caller: end a call: %w", err)
		}
		if removed.RowsAffected() == 0 {
			return nil
		}
		return do(tx)
	})
}
