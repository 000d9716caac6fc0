package projection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// claim is a stream that this process owns.
type claim struct {
	stream   string
	epoch    int64
	attempts int // failures of its head so far
}

// arguments returns the arguments of a query that only the claim's owner may run, with others behind them.
func (p *Projection) arguments(c claim, others pg.Args) pg.Args {
	args := pg.Args{"stream": c.stream, "worker": p.worker, "epoch": c.epoch}
	maps.Copy(args, others)
	return args
}

// position is a stream's watermark.
type position struct {
	applied, expected, wanted int64
	event                     *uuid.UUID // the one at applied, nil where none was applied
	begins                    bool       // the first event may have any version
}

// claims takes up to n streams that are due.
func (p *Projection) claims(ctx context.Context, n int) (taken []claim, err error) {
	batch := &pgx.Batch{}
	p.sql.Hasten.Queue(batch, nil) // nothing is lost with a claim that a crash takes back
	p.sql.Claim.Queue(batch, pg.Args{"worker": p.worker, "limit": n, "ttl": p.cfg.LeaseTTL}).Query(func(rows pgx.Rows) error {
		taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c claim, err error) {
			err = row.Scan(&c.stream, &c.epoch, &c.attempts)
			return c, err
		})
		return err
	})
	if err := p.cfg.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("claim streams: %w", err)
	}
	return taken, nil
}

// work applies one batch of a stream and settles it. It returns an error only for an outage.
func (p *Projection) work(ctx context.Context, c claim) error {
	err := p.batch(ctx, c, p.cfg.BatchEvents)
	var blamed *eventError
	// The events before the failed one are applied without it.
	for errors.As(err, &blamed) && blamed.place > 0 {
		first := err
		if err = p.batch(ctx, c, blamed.place); err == nil {
			p.log.DebugContext(ctx, "a batch was cut before an event that failed", "stream", c.stream, "error", first)
			return nil // it is due again, and the event that failed comes first
		}
	}
	switch {
	case err == nil:
		p.forget(c.stream)
		return nil
	case errors.Is(err, errLost):
		p.metrics.lost.Inc()
		p.log.WarnContext(ctx, "a stream has another owner, what was done to it here is undone", "stream", c.stream, "epoch", c.epoch)
		return nil
	case errors.As(err, &blamed):
		return p.fail(ctx, c, blamed)
	default:
		p.giveBack(ctx, c)
		return err
	}
}

// batch applies up to limit events of a stream: effects, checkpoint and watermark in one transaction.
func (p *Projection) batch(ctx context.Context, c claim, limit int) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.LeaseTTL)
	defer cancel()
	var done []Event
	err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) (err error) {
		var at position
		begin := &pgx.Batch{}
		p.sql.Enter.Queue(begin, p.settings())
		p.sql.Lock.Queue(begin, p.arguments(c, nil)).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&at.applied, &at.expected, &at.wanted, &at.event)
			if errors.Is(err, pgx.ErrNoRows) {
				return errLost
			}
			return err
		})
		if err := tx.SendBatch(ctx, begin).Close(); err != nil {
			return err
		}
		at.begins = p.cfg.FromKept
		events, err := p.next(ctx, tx, c.stream, at, limit)
		if err != nil {
			return err
		}
		done = events
		if err := p.applyAll(ctx, tx, events); err != nil {
			return err
		}
		return p.settle(ctx, tx, c, at, events, len(events) == limit)
	})
	if err == nil {
		p.metrics.count(done)
		return nil
	}
	return blame(err, c.stream, done)
}

// blame picks an event where the database refused all of them at the end, for a deferred constraint say: the first of the second half, so
// that the halves are tried until one event is left.
func blame(err error, stream string, events []Event) error {
	var blamed *eventError
	if len(events) == 0 || errors.As(err, &blamed) || !pg.Refused(err, "") || outage(err, false) {
		return err
	}
	half := len(events) / 2
	return &eventError{stream: stream, version: events[half].Version, place: half, cause: err}
}

// next reads the events behind a position and makes sure that they are the right ones.
func (p *Projection) next(ctx context.Context, tx pgx.Tx, stream string, at position, limit int) ([]Event, error) {
	from := at.applied + 1
	checked := at.event != nil && at.applied > 0
	if checked {
		from, limit = at.applied, limit+1 // the one applied last, too
	}
	events, err := p.journal.events(ctx, tx, stream, from, limit)
	if err != nil {
		return nil, err
	}
	if checked && len(events) > 0 && events[0].Version == from+1 {
		checked, events = false, events[:min(len(events), limit-1)] // dropped with its part: a database that forgot it would give the next one its version
	}
	if checked {
		if len(events) == 0 || events[0].Version != at.applied || events[0].ID != *at.event {
			return nil, &eventError{stream: stream, version: at.applied, cause: ErrDiverged}
		}
		events = events[1:]
	}
	if at.begins && at.applied == 0 && len(events) > 0 {
		at.applied = events[0].Version - 1
	}
	for i, e := range events {
		if want := at.applied + 1 + int64(i); e.Version != want {
			cause := fmt.Errorf("%w: version %d is followed by %d", ErrHole, want-1, e.Version)
			return nil, &eventError{stream: stream, version: want, place: i, cause: cause}
		}
	}
	return events, nil
}

// applyAll applies the events that are not for the audit alone.
func (p *Projection) applyAll(ctx context.Context, tx pgx.Tx, events []Event) error {
	for i, e := range events {
		if e.audit {
			continue
		}
		if err := p.apply(ctx, tx, e); err != nil {
			if outage(err, tx.Conn().IsClosed() && ctx.Err() == nil) {
				return fmt.Errorf("apply stream %q version %d: %w", e.Stream, e.Version, err)
			}
			return &eventError{stream: e.Stream, version: e.Version, place: i, cause: err}
		}
	}
	return nil
}

// apply calls the projector; a panic is an error, and so is a fault that it leaves behind in silence.
func (p *Projection) apply(ctx context.Context, tx pgx.Tx, e Event) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.log.ErrorContext(ctx, "the projector panicked", "stream", e.Stream, "version", e.Version,
				"panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("the projector panicked: %v", cause)
		}
	}()
	if err := p.cfg.Projector.Apply(ctx, guarded{tx}, e); err != nil {
		return err
	}
	switch tx.Conn().PgConn().TxStatus() {
	case 'E':
		return errPassedOver
	case 'I':
		return errEnded
	}
	return ctx.Err() // of one that took no notice of the end of its time
}

var (
	errPassedOver = errors.New("the projector passed over an error of the database")
	errEnded      = errors.New("the projector must not end the transaction")
)

// guarded keeps Apply from ending the transaction that its effect shares with the watermark.
type guarded struct{ pgx.Tx }

func (guarded) Commit(context.Context) error   { return errEnded }
func (guarded) Rollback(context.Context) error { return errEnded }

// settle moves the watermark behind the events and gives the stream back.
func (p *Projection) settle(ctx context.Context, tx pgx.Tx, c claim, at position, events []Event, full bool) error {
	applied, event := at.applied, at.event
	if n := len(events); n > 0 {
		applied, event = events[n-1].Version, &events[n-1].ID
	} else if at.begins && at.applied == 0 {
		var err error
		if applied, err = p.journal.droppedTo(ctx, tx, c.stream); err != nil {
			return err
		}
	}
	sum, err := p.print(ctx, tx, c.stream)
	if err != nil {
		return err
	}
	var pause *time.Duration
	if len(events) == 0 {
		pause = new(missingPause) // the news came, the event did not: a journal that lags behind
	}
	tag, err := p.sql.Done.Exec(ctx, tx, p.arguments(c, pg.Args{
		"applied": applied, "event": event, "print": sum, "pause": pause, "more": full, "before": at.applied,
	}))
	if err != nil {
		return fmt.Errorf("move the watermark of stream %q: %w", c.stream, err)
	}
	if tag.RowsAffected() != 1 {
		return errLost
	}
	return nil
}

// missingPause is the time until an announced event that is not in the journal is looked for again.
const missingPause = time.Second

func (p *Projection) print(ctx context.Context, tx pgx.Tx, stream string) (text string, err error) {
	if err = tx.QueryRow(ctx, p.printOfStream(), stream).Scan(&text); err != nil {
		return "", fmt.Errorf("fingerprint of stream %q: %w", stream, err)
	}
	return text, nil
}
