package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Process deals with one message in one transaction: see the table in the package's documentation. When the handler fails, the message is
// parked and the Outcome says so: the error is then nil and the message may be acknowledged. An error means that nothing is recorded and
// the message must come again: the database is away, the context has ended, or the message is malformed (message.ErrMalformed).
func (i *Inbox) Process(ctx context.Context, m message.Message, handle Handler) (Outcome, error) {
	outcomes, err := i.ProcessBatch(ctx, []message.Message{m}, handle)
	if err != nil {
		return Outcome{}, err
	}
	return outcomes[0], nil
}

// ProcessBatch deals with messages in their order, all in one transaction as long as no handler fails. When one does,
// those before it are one transaction, it is parked in another, and those behind it go on in a third. The outcomes are
// in the order of the messages. After an error those before the outcomes' end are dealt with, the others are not.
func (i *Inbox) ProcessBatch(ctx context.Context, messages []message.Message, handle Handler) ([]Outcome, error) {
	for _, m := range messages {
		if err := m.Check(); err != nil {
			return nil, err
		}
	}
	b := batch{box: i, handle: handle}
	err := b.run(ctx, messages)
	return b.outcomes, err
}

// fence is a reader's right to a lane, compared in each of its transactions.
type fence struct {
	lane  int
	owner uuid.UUID
	epoch int64
	ttl   time.Duration
	// known is the position that the lane's reader has stored last.
	known *uint64
}

// batch is a run of messages on their way through one or more transactions.
type batch struct {
	box    *Inbox
	handle Handler
	// fence is nil outside of a Consumer, and so is keep, which stores a malformed message.
	fence *fence
	keep  func(context.Context, message.Message, error) error
	// ended counts the ends of the process by the handler of the only message.
	ended    int
	outcomes []Outcome
}

// handlerError names the message whose handler failed; index -1: unknown.
type handlerError struct {
	index int
	cause error
}

func (e *handlerError) Error() string { return e.cause.Error() }

func (e *handlerError) Unwrap() error { return e.cause }

// run deals with the messages in as few transactions as possible.
func (b *batch) run(ctx context.Context, messages []message.Message) error {
	for len(messages) > 0 {
		outcomes, err := b.attempt(ctx, messages)
		if err == nil {
			b.done(ctx, messages, outcomes)
			return nil
		}
		var failed *handlerError
		switch blamed := errors.As(err, &failed); {
		case !blamed && !unfit(err):
			return err
		case !blamed && len(messages) == 1:
			return b.blame(ctx, messages[0], err)
		case (!blamed || failed.index < 0) && len(messages) > 1: // find out which it was
			for n := range messages {
				if err := b.run(ctx, messages[n:n+1]); err != nil {
					return err
				}
			}
			return nil
		}
		at := max(failed.index, 0)
		if err := b.run(ctx, messages[:at]); err != nil {
			return err
		}
		if err := b.blame(ctx, messages[at], b.park(ctx, messages[at], failed.cause, b.ended+1)); err != nil {
			return err
		}
		messages = messages[at+1:]
	}
	return nil
}

// blame deals with a message whose values cause an error.
func (b *batch) blame(ctx context.Context, m message.Message, err error) error {
	if !unfit(err) {
		return err
	}
	err = &message.MalformedError{Subject: m.Subject, Sequence: m.StreamSequence, Header: "(message)", Reason: err.Error()}
	if b.keep != nil {
		if err = b.keep(ctx, m, err); err == nil {
			b.outcomes = append(b.outcomes, Outcome{})
		}
	}
	return err
}

// attempt is one transaction for all of them. A *handlerError means that it was rolled back because a handler failed.
func (b *batch) attempt(ctx context.Context, messages []message.Message) ([]Outcome, error) {
	tx, end, err := b.box.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	t := newTransaction(b.box, tx)
	decisions, err := t.look(ctx, b.fence, messages)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(messages))
	asked := time.Now()
	for n, m := range messages {
		if time.Since(asked) > idleMargin/2 { // a handler without statements leaves the session idle, which the server ends in time
			if err := tx.Conn().Ping(ctx); err != nil {
				return nil, fmt.Errorf("inbox: between handlers: %w", err)
			}
			asked = time.Now()
		}
		outcomes[n], err = t.carryOut(ctx, decisions[n], m, b.handle)
		if err != nil {
			if failed, ok := errors.AsType[*handlerError](err); ok {
				failed.index = n
			}
			return nil, err
		}
	}
	if err := t.settle(ctx, nil); err != nil {
		return nil, b.box.blame(err)
	}
	if err := b.box.commit(ctx, tx); err != nil {
		return nil, err
	}
	b.stored(messages)
	return outcomes, nil
}

// park is the transaction that stores a message whose handler failed. Meanwhile another process may have settled it.
func (b *batch) park(ctx context.Context, m message.Message, cause error, attempts int) error {
	tx, end, err := b.box.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	t := newTransaction(b.box, tx)
	decisions, err := t.look(ctx, b.fence, []message.Message{m})
	if err != nil {
		return err
	}
	d := decisions[0]
	var outcome Outcome
	if d.verdict == runIt {
		status, delay := b.box.fate(attempts, cause)
		outcome = Outcome{
			Status: status, Findings: d.findings, Missing: d.missing, Last: d.last,
			Err: cause, Attempts: attempts, RetryAt: retryAt(status, delay),
		}
		err = t.park(d, m, outcome, delay)
	} else {
		outcome, err = t.carryOut(ctx, d, m, nil)
	}
	if err != nil {
		return err
	}
	if err := t.settle(ctx, nil); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("inbox: commit: %w", err)
	}
	b.stored([]message.Message{m})
	b.done(ctx, []message.Message{m}, []Outcome{outcome})
	return nil
}

// stored sets known to the position that a transaction has stored.
func (b *batch) stored(messages []message.Message) {
	if b.fence != nil {
		*b.fence.known = max(*b.fence.known, messages[len(messages)-1].StreamSequence)
	}
}

func retryAt(status Status, delay time.Duration) time.Time {
	if status == Dead {
		return time.Time{}
	}
	return time.Now().Add(delay)
}

// done keeps the outcomes and reports them.
func (b *batch) done(ctx context.Context, messages []message.Message, outcomes []Outcome) {
	b.outcomes = append(b.outcomes, outcomes...)
	for n, o := range outcomes {
		b.box.report(ctx, messages[n], o)
	}
}
