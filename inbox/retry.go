package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// RetryDue runs the handler for due parked messages and for those that waited behind them, each in its own transaction, up to limit messages;
// it returns the number of tries. It may run anywhere and in several processes at once: each try holds the lock of its stream.
func (i *Inbox) RetryDue(ctx context.Context, limit int, handle Handler) (tried int, err error) {
	for tried < limit {
		found, err := i.retry(ctx, handle)
		if err != nil || !found {
			return tried, err
		}
		tried++
	}
	return tried, nil
}

// head is the first parked message of a stream.
type head struct {
	id       int64
	state    string
	attempts int
	begun    int
	reason   string
	m        message.Message
}

// claim is a parked message that this process marked as begun.
type claim struct {
	key, id int64
	begun   int
}

// errOther: somebody else dealt with the message that was claimed, or another goes first.
var errOther = errors.New("the claimed message is not the first")

// retry tries one message; found is false when none is due. Suspects wait for another time while one is under way.
func (i *Inbox) retry(ctx context.Context, handle Handler) (found bool, err error) {
	leave, alone := i.tryAlone()
	leave = sync.OnceFunc(leave)
	defer leave()
	var c claim
	err = i.sql.Claim.Row(ctx, i.db, pg.Args{
		"consumer": i.cfg.Name, "process": i.id, "suspects": alone,
		"longest": i.cfg.BackoffMax.Seconds(), "base": i.cfg.BackoffBase.Seconds(), "factor": i.cfg.BackoffFactor,
	}).Scan(&c.key, &c.id, &c.begun)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("inbox: find a due message: %w", withCure(err))
	}
	if c.begun <= 1 { // it is none
		leave()
	}
	err = i.retryClaimed(ctx, c, handle)
	if unfit(err) {
		_, err = i.sql.Bury.Exec(ctx, i.db, pg.Args{"id": c.id, "begun": c.begun, "process": i.id, "reason": reason(err)})
	}
	other := errors.Is(err, errOther)
	if err != nil {
		// The process lives: its beginning of the message does not count. When this is lost, too, it counts once.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = i.sql.Unclaim.Exec(ctx, i.db, pg.Args{"id": c.id, "begun": c.begun, "process": i.id}) // err has the cause
	}
	if err != nil && !other {
		return false, err
	}
	return true, nil
}

// retryClaimed tries a message that is marked as begun.
func (i *Inbox) retryClaimed(ctx context.Context, c claim, handle Handler) error {
	tx, end, err := i.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	t := newTransaction(i, tx)
	h, d, err := t.lookAtHead(ctx, c.key)
	if err != nil {
		return err
	}
	if h == nil || h.id != c.id || h.begun != c.begun {
		return errOther
	}
	ended := i.ends(h.begun, h.attempts)
	if ended > 0 {
		i.reportEnded(ctx, h.m, h.attempts+ended)
	}
	if d.verdict == runIt && i.hopeless(h.attempts+ended) {
		end()
		return i.retryFailed(ctx, c, Final(errEnded), h.attempts+ended)
	}
	o, err := t.retryHead(ctx, h, d, handle)
	if err == nil {
		if err = i.commit(ctx, tx); err == nil {
			i.report(ctx, h.m, o)
			return nil
		}
	}
	var failed *handlerError
	if !errors.As(err, &failed) {
		return err
	}
	end()
	return i.retryFailed(ctx, c, failed.cause, h.attempts+ended+1)
}

// lockStream locks a stream by its key.
func (t *transaction) lockStream(ctx context.Context, key int64) error {
	b := &pgx.Batch{}
	t.box.sql.LimitIdle.Queue(b, pg.Args{"idle": t.box.idleLimit()})
	t.box.sql.LockStream.Queue(b, pg.Args{"key": key}).QueryRow(func(row pgx.Row) error { return row.Scan(&key) })
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("inbox: lock stream %d: %w", key, err)
	}
	return nil
}

// lookAtHead locks the stream and reads its first parked message, and the decision on it; nil without any.
func (t *transaction) lookAtHead(ctx context.Context, key int64) (*head, decision, error) {
	if err := t.lockStream(ctx, key); err != nil {
		return nil, decision{}, err
	}
	var h head
	var subject string
	var sequence int64
	var envelope, payload []byte
	err := t.box.sql.Head.Row(ctx, t.tx, pg.Args{"key": key}).
		Scan(&h.id, &h.state, &h.attempts, &h.begun, &h.reason, &subject, &sequence, &envelope, &payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, decision{}, nil
	}
	if err != nil {
		return nil, decision{}, fmt.Errorf("inbox: read a parked message: %w", err)
	}
	if h.m, err = decodeEnvelope(envelope, subject, sequence, payload); err != nil {
		return nil, decision{}, err
	}
	decisions := make([]decision, 1)
	rows, err := t.box.sql.Decide.Rows(ctx, t.tx, t.box.decideArgs(columnsOf([]message.Message{h.m}), true))
	if err == nil {
		err = readDecisions(rows, decisions)
	}
	if err != nil {
		return nil, decision{}, fmt.Errorf("inbox: look a message up: %w", err)
	}
	return &h, decisions[0], nil
}

// retryHead deals with the first parked message of a stream; the caller commits.
func (t *transaction) retryHead(ctx context.Context, h *head, d decision, handle Handler) (Outcome, error) {
	if d.verdict == buryIt {
		o := Outcome{Status: Dead, Findings: d.findings, Err: errConflict, Attempts: h.attempts}
		return o, t.setHead(ctx, h, o, 0)
	}
	o, err := t.carryOut(ctx, d, h.m, handle)
	if err != nil {
		return Outcome{}, err
	}
	o.Attempts = h.attempts
	if err := t.settle(ctx, nil); err != nil {
		return Outcome{}, t.box.blame(err)
	}
	if err := t.unpark(ctx, d.key, h.id); err != nil {
		return Outcome{}, t.box.blame(err)
	}
	return o, nil
}

// unpark removes the first parked message of a stream; the next one is due.
func (t *transaction) unpark(ctx context.Context, key, id int64) error {
	if _, err := t.box.sql.Unpark.Exec(ctx, t.tx, pg.Args{"key": key, "id": id}); err != nil {
		return fmt.Errorf("inbox: unpark a message: %w", err)
	}
	return nil
}

func (t *transaction) setHead(ctx context.Context, h *head, o Outcome, delay time.Duration) error {
	var due *time.Duration
	if o.Status == Failed {
		due = &delay
	}
	_, err := t.box.sql.Fail.Exec(ctx, t.tx, pg.Args{
		"id": h.id, "state": o.Status.String(), "attempts": o.Attempts, "wait": due, "reason": reason(o.Err),
	})
	if err != nil {
		return fmt.Errorf("inbox: note a failure: %w", err)
	}
	return nil
}

// retryFailed stores so many attempts, unless another process settled the message meanwhile.
func (i *Inbox) retryFailed(ctx context.Context, c claim, cause error, attempts int) error {
	tx, end, err := i.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	t := newTransaction(i, tx)
	h, d, err := t.lookAtHead(ctx, c.key)
	if err != nil || h == nil || h.id != c.id || h.begun != c.begun {
		return err
	}
	status, delay := i.fate(attempts, cause)
	o := Outcome{Status: status, Findings: d.findings, Err: cause, Attempts: attempts, RetryAt: retryAt(status, delay)}
	if err := t.setHead(ctx, h, o, delay); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("inbox: commit: %w", err)
	}
	i.report(ctx, h.m, o)
	return nil
}
