package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Command is an operator's change of a selection of messages.
type Command struct {
	Selection Selection
	// Actor names the operator; at most 200 characters. Required.
	Actor string
	// Reason is for the audit; at most 2000 characters. Required for Skip and Discard.
	Reason string
	// Most bounds the messages changed, the lowest sequences of each stream first, and counted. 0: all.
	Most int64
	// DryRun counts and changes nothing.
	DryRun bool
	// CountMost and CountWithin end the count of a dry run at so many messages, or after that time; the result's More says so. Zero: it
	// is counted to the end.
	CountMost   int64
	CountWithin time.Duration
	// Expected is the number of messages shown to the operator. When another number matches nothing is changed and the error is
	// ErrCountChanged. nil: any number.
	Expected *int64
	// AtLeast admits more matches than Expected, too: for an operator who was shown an unfinished count.
	AtLeast bool
	// Progress is called after each chunk. nil: nobody.
	Progress func(Changed)
	// Counting gets the count so far, while a dry run counts. nil: nobody.
	Counting func(int64)
}

// Changed is the result of a command, so far when an error came with it.
type Changed struct {
	// Count is the number of messages changed, or matching in a dry run.
	Count int64
	// More says that a dry run ended its count before the end: Count or more match.
	More bool
	// Waiting counts the requeued messages that still wait behind an earlier dead message of their stream. Not known in a dry run.
	Waiting int64
	// Gone counts the selected messages that somebody else changed before their turn.
	Gone int64
}

// operation is one of the ways to end a message's wait, or to change it.
type operation struct {
	name   string
	states []State // its required states
	reason bool    // required
	query  pg.Query
	extra  func(State) pg.Args // query's arguments beyond the rows' keys
	to     *time.Time          // where to it is moved
	held   map[int64]held      // its rows taken from the workers
}

// Requeue has messages delivered anew, in the order of their streams: no attempts, due at once, of the next generation.
func (o *Operator) Requeue(ctx context.Context, c Command) (Changed, error) {
	return o.run(ctx, c, operation{
		name: "requeue", states: []State{Dead, Failed}, query: o.sql.Requeue, extra: func(s State) pg.Args { return pg.Args{"state": s} },
	})
}

// Skip settles dead messages without publishing them and lets their streams go on. The events stay.
func (o *Operator) Skip(ctx context.Context, c Command) (Changed, error) {
	return o.run(ctx, c, operation{
		name: "skip", states: []State{Dead}, reason: true, query: o.sql.Settle,
		extra: func(s State) pg.Args { return pg.Args{"discarded": false, "state": s, "held": nil} },
	})
}

// Discard is Skip for messages that shall never be published; they are shown as discarded.
func (o *Operator) Discard(ctx context.Context, c Command) (Changed, error) {
	return o.run(ctx, c, operation{
		name: "discard", states: []State{Dead}, reason: true, query: o.sql.Settle,
		extra: func(s State) pg.Args { return pg.Args{"discarded": true, "state": s, "held": nil} },
	})
}

// chunk bounds the messages that one transaction changes.
const chunk = 500

func (o *Operator) run(ctx context.Context, c Command, op operation) (Changed, error) {
	var r Changed
	c.Selection = c.Selection.withDefaults()
	if err := c.validate(op); err != nil {
		return r, err
	}
	at, err := o.begin(ctx, c.Selection)
	if err != nil {
		return r, fmt.Errorf("%s: %w", op.name, err)
	}
	if err := o.checkCount(ctx, c, at); err != nil {
		return r, fmt.Errorf("%s: %w", op.name, err)
	}
	if c.DryRun {
		var t tally
		t, err = o.count(ctx, *at, c.countTo(c.CountMost), c.CountWithin, c.Counting)
		t = c.capped(t)
		r.Count, r.More = t.n, t.more
	} else {
		err = o.chunks(ctx, c, op, at, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", op.name, err)
	}
	return r, nil
}

// checkCount counts before anything is changed. The selection does not include messages that die from now on; some of it may still go
// before their turn.
func (o *Operator) checkCount(ctx context.Context, c Command, at *cursor) error {
	if c.Expected == nil {
		return nil
	}
	field, most, enough := FieldExpected, *c.Expected+lookStep, func(n int64) bool { return n == *c.Expected }
	if c.AtLeast {
		field, most, enough = FieldAtLeast, max(1, *c.Expected), func(n int64) bool { return n >= *c.Expected }
	}
	t, err := o.count(ctx, *at, c.countTo(most), 0, nil)
	if t = c.capped(t); err != nil || enough(t.n) {
		return err
	}
	text := fmt.Sprintf("%d match, not %d", t.n, *c.Expected)
	if t.more {
		text = fmt.Sprintf("at least %d match, not %d", t.n, *c.Expected)
	} else if c.AtLeast {
		text += " or more"
	}
	return &InputError{Field: field, Err: ErrCountChanged, Problem: text + "; nothing was changed"}
}

// countTo bounds a count by Most, beside its own bound; 0: none.
func (c Command) countTo(most int64) int64 {
	if most == 0 || c.Most > 0 && c.Most < most {
		return c.Most
	}
	return most
}

// capped limits a tally to Most.
func (c Command) capped(t tally) tally {
	if c.Most > 0 && t.n >= c.Most {
		return tally{n: c.Most}
	}
	return t
}

func (c Command) validate(op operation) error {
	if err := c.Selection.validate(); err != nil {
		return err
	}
	if c.Expected != nil && *c.Expected < 0 {
		return maintenance.Refuse(FieldExpected, "must not be negative, got %d", *c.Expected)
	}
	if c.Most < 0 {
		return maintenance.Refuse(FieldLimit, "must be at least 1, got %d", c.Most)
	}
	if c.CountMost < 0 || c.CountWithin < 0 {
		return maintenance.Refuse(FieldLimit, "the bounds of a count must not be negative, got %d and %s", c.CountMost, c.CountWithin)
	}
	fits := false
	var names []string
	for _, s := range op.states {
		fits = fits || s == c.Selection.State
		names = append(names, string(s))
	}
	if !fits {
		return maintenance.Refuse(FieldState, "%s is for messages that are %s, not %q",
			op.name, strings.Join(names, " or "), c.Selection.State)
	}
	return maintenance.CheckWords(c.Actor, c.Reason, op.reason)
}

// chunks works a selection off, one transaction after the other.
func (o *Operator) chunks(ctx context.Context, c Command, op operation, at *cursor, r *Changed) error {
	for limit := chunk; !at.done(); {
		if c.Most > 0 {
			if limit = int(min(chunk, c.Most-r.Count)); limit == 0 {
				break
			}
		}
		var selected []key
		var to place
		var done []changed
		var held map[int64]held
		var waiting int64
		err := o.without(ctx, func(o *Operator) error {
			return o.write(ctx, func(tx pgx.Tx) (err error) {
				if selected, to, err = o.next(ctx, tx, at, limit); err != nil {
					return err
				}
				if err := o.lock(ctx, tx, at, selected); err != nil || len(selected) == 0 {
					return err
				}
				if c.Selection.State == Scheduled {
					held, err = o.holdRows(ctx, tx, selected)
					return err
				}
				done, waiting, err = o.change(ctx, tx, c, op, selected)
				return err
			})
		})
		if err == nil && len(held) > 0 {
			done, err = o.settleHeld(ctx, c, op, held)
		}
		if err != nil {
			return err
		}
		at.place = to
		if len(selected) == 0 {
			continue
		}
		r.Count += int64(len(done))
		r.Gone += int64(len(selected) - len(done))
		r.Waiting += waiting
		if c.Progress != nil {
			c.Progress(*r)
		}
	}
	return nil
}

type changed struct {
	Partition  partition.ID `json:"partition_key"`
	Sequence   int64        `json:"global_sequence"`
	Stream     string       `json:"stream_id"`
	Attempts   int          `json:"attempts"`
	Generation int          `json:"generation"`
	LastError  string       `json:"last_error,omitempty"`
	// AvailableAt is the scheduled message's former time.
	AvailableAt *time.Time `json:"available_at,omitempty" db:"-"`
}

// lock locks table and partitions of the rows, as resizes do, in their order. A resize since the cursor began has moved rows behind the
// cursor, so then nothing more is changed.
func (o *Operator) lock(ctx context.Context, tx pgx.Tx, at *cursor, rows []key) error {
	if ids, _ := columns(rows); len(ids) > 0 {
		if err := o.outbox.LockTable(ctx, tx); err != nil {
			return err
		}
		if err := o.outbox.LockPartitions(ctx, tx, ids); err != nil {
			return err
		}
	}
	var resized string
	if err := o.sql.Now.Row(ctx, tx, nil).Scan(nil, &resized); err != nil || resized == at.resized {
		return err
	}
	return &InputError{Field: FieldSelection, Err: ErrCountChanged, Problem: "the partitions were resized meanwhile; do it again for the rest"}
}

// columns returns the rows' keys as parameters.
func columns(rows []key) (ids []partition.ID, sequences []int64) {
	for _, k := range rows {
		ids, sequences = append(ids, k.Partition), append(sequences, k.Sequence)
	}
	return ids, sequences
}

// change changes the selected rows, whose partitions are locked, as far as their state is unchanged.
func (o *Operator) change(
	ctx context.Context, tx pgx.Tx, c Command, op operation, selected []key,
) (done []changed, waiting int64, err error) {
	ids, sequences := columns(selected)
	args := op.extra(c.Selection.State)
	args["partitions"], args["sequences"] = ids, sequences
	if op.held != nil {
		_, args["held"] = holds(selected, op.held)
	}
	if done, err = pg.Collect(ctx, tx, op.query, args, pgx.RowToStructByPos[changed]); err != nil || len(done) == 0 {
		return nil, 0, err
	}
	for i := range done {
		done[i].AvailableAt = op.held[done[i].Sequence].until
	}
	ids, sequences = ids[:0], sequences[:0]
	streams := make([]string, 0, len(done))
	for _, d := range done {
		ids, sequences, streams = append(ids, d.Partition), append(sequences, d.Sequence), append(streams, d.Stream)
	}
	if err := o.outbox.Promote(ctx, tx, ids, streams); err != nil {
		return nil, 0, err
	}
	if op.name == "requeue" {
		if err := o.sql.Waiting.Row(ctx, tx, pg.Args{"partitions": ids, "sequences": sequences, "streams": streams}).Scan(&waiting); err != nil {
			return nil, 0, err
		}
	}
	return done, waiting, o.auditMessages(ctx, tx, c, op, done, waiting)
}
