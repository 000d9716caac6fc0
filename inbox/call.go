package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// Call names a request of a sender, whose ids ascend strictly.
type Call struct {
	// Sender names the sender, 1 to 2000 bytes.
	Sender string
	// Generation rises when a sender begins its ids anew, 0 or more.
	Generation int
	// ID is above that of the sender's last call, 1 or more.
	ID int64
}

// CallHandler carries out a call inside the inbox's transaction, as a Handler does.
type CallHandler func(ctx context.Context, tx pgx.Tx) (result []byte, err error)

// ErrInvalidCall means that a Call breaks a rule; the text names the field.
var ErrInvalidCall = errors.New("invalid call")

func (c Call) check() error {
	switch {
	case c.Sender == "", len(c.Sender) > message.MaxKey, strings.ContainsRune(c.Sender, 0), !utf8.ValidString(c.Sender):
		return fmt.Errorf("%w: Sender must be text of 1 to %d bytes without NUL", ErrInvalidCall, message.MaxKey)
	case c.Generation < 0 || c.Generation > math.MaxInt32:
		return fmt.Errorf("%w: Generation must be 0 to %d, got %d", ErrInvalidCall, math.MaxInt32, c.Generation)
	case c.ID < 1:
		return fmt.Errorf("%w: ID must be at least 1, got %d", ErrInvalidCall, c.ID)
	}
	return nil
}

// sender is a row of inbox_senders.
type sender struct {
	generation int
	id         int64
	failed     bool
	reason     string
	result     []byte
}

// Call carries out a call once, in one transaction with its result:
//
//	(generation, ID) against the sender's last   what happens
//	above                                        it runs; Applied. Ids left out are reported as a Gap
//	equal                                        it does not run; Repeat with the stored result
//	below                                        it does not run; Outdated, with Reversal or LowerGeneration
//
// A Final error of the handler undoes the handler's effect and is stored instead of a result: the status is Dead, and Err is the error;
// repeats get Repeat with the same reason in Err. Any other error of the handler is returned and leaves everything as it was, so that the
// sender can send the call again. Calls of one sender exclude each other, those of several run side by side.
func (i *Inbox) Call(ctx context.Context, call Call, handle CallHandler) (Outcome, error) {
	if err := call.check(); err != nil {
		return Outcome{}, err
	}
	o, err := i.carryCall(ctx, call, handle, nil)
	var failed *handlerError
	switch {
	case err == nil:
	case errors.As(err, &failed) && IsFinal(failed.cause):
		o, err = i.carryCall(ctx, call, handle, failed.cause)
	case errors.As(err, &failed):
		err = failed.cause
	}
	if err != nil {
		i.metrics.calls.WithLabelValues("error").Inc()
		return Outcome{}, err
	}
	i.metrics.calls.WithLabelValues(o.Status.String()).Inc()
	i.metrics.found(o.Findings)
	if o.Findings != 0 || o.Status == Dead {
		level := slog.LevelInfo
		if o.Findings.Has(Gap) { // a sender of package caller leaves none out: this database has forgotten them
			level = slog.LevelError
		}
		i.cfg.Logger.Log(ctx, level, "call of the inbox", "consumer", i.cfg.Name, "status", o.Status.String(),
			"findings", o.Findings.String(), "sender", call.Sender, "call_id", call.ID, "last_id", o.Last, "missing", o.Missing, "error", o.Err)
	}
	return o, nil
}

// carryCall is one transaction. With final it stores that failure and does not run the handler.
func (i *Inbox) carryCall(ctx context.Context, call Call, handle CallHandler, final error) (Outcome, error) {
	tx, end, err := i.begin(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer end()
	last, err := i.lockSender(ctx, tx, call.Sender)
	if err != nil {
		return Outcome{}, err
	}
	o, runs := last.judge(call)
	if !runs {
		return o, nil
	}
	o.Status = Applied
	if final == nil {
		if o.Result, err = i.call(ctx, tx, handle); err != nil {
			return Outcome{}, err
		}
	} else {
		o.Status, o.Err = Dead, final
	}
	_, err = i.sql.SetSender.Exec(ctx, tx, pg.Args{
		"consumer": i.cfg.Name, "sender": call.Sender, "generation": call.Generation, "call": call.ID,
		"failed": final != nil, "reason": reason(final), "result": o.Result,
	})
	if err != nil {
		return Outcome{}, i.blame(fmt.Errorf("inbox: record a call: %w", err))
	}
	if err := i.commit(ctx, tx); err != nil {
		return Outcome{}, err
	}
	return o, nil
}

// judge compares a call with the sender's last.
func (s sender) judge(call Call) (o Outcome, runs bool) {
	o.Last = s.id
	switch {
	case s.id > 0 && call.Generation == s.generation && call.ID == s.id:
		o.Status, o.Result = Repeat, s.result
		if s.failed {
			o.Err = Final(errors.New(s.reason))
		}
	case s.id > 0 && call.Generation < s.generation:
		o.Status, o.Findings = Outdated, LowerGeneration
	case s.id > 0 && call.Generation == s.generation && call.ID < s.id:
		o.Status, o.Findings = Outdated, Reversal
	default:
		before := s.id
		if call.Generation != s.generation {
			before = 0
		}
		if o.Missing = call.ID - before - 1; o.Missing > 0 {
			o.Findings = Gap
		}
		return o, true
	}
	return o, false
}

func (i *Inbox) lockSender(ctx context.Context, tx pgx.Tx, name string) (s sender, err error) {
	b := &pgx.Batch{}
	args := pg.Args{"consumer": i.cfg.Name, "sender": name}
	i.sql.Settings.Queue(b, pg.Args{"idle": i.idleLimit()})
	i.sql.AddSender.Queue(b, args)
	i.sql.LockSender.Queue(b, args).QueryRow(func(row pgx.Row) error {
		return row.Scan(&s.generation, &s.id, &s.failed, &s.reason, &s.result)
	})
	i.sql.SettingsBack.Queue(b, nil)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return sender{}, fmt.Errorf("inbox: look a sender up: %w", withCure(err))
	}
	return s, nil
}

// LastCall returns the last call of a sender, zero when there was none: a sender that lost its own state goes on behind it.
func (i *Inbox) LastCall(ctx context.Context, name string) (Call, error) {
	var s sender
	err := i.sql.LastCall.Row(ctx, i.db, pg.Args{"consumer": i.cfg.Name, "sender": name}).Scan(&s.generation, &s.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Call{Sender: name}, nil
	}
	if err != nil {
		return Call{}, fmt.Errorf("inbox: last call: %w", withCure(err))
	}
	return Call{Sender: name, Generation: s.generation, ID: s.id}, nil
}
