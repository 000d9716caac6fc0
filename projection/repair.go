package projection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// Repaired is the result of a repair.
type Repaired struct {
	Repaired []Gap    `json:"repaired"`
	Left     []Unmade `json:"left"`
}

// Unmade is a gap that is still there.
type Unmade struct {
	Gap

	Reason string `json:"reason"`
}

// needsDecision reports whether no program can close the gap: the journal is another one than was applied.
func (g Gap) needsDecision() bool { return g.Kind == Ahead || g.Kind == Diverged }

// Repair replays the streams of the gaps, from the watermark where the stream is merely behind, else from its first event. One
// transaction a stream: readers see the rows before or the rows after. Gaps of the kinds Ahead and Diverged stay, unless rewrite makes
// the journal right. progress, if set, hears after every stream.
func (p *Projection) Repair(ctx context.Context, gaps []Gap, rewrite bool, progress func(done, all int)) (Repaired, error) {
	result := Repaired{Repaired: []Gap{}, Left: []Unmade{}}
	dropped, err := p.dropped(ctx, gaps)
	if err != nil {
		return result, fmt.Errorf("repair: %w", err)
	}
	for i, g := range gaps {
		if dropped[g.Stream] {
			result.Left = append(result.Left, Unmade{g, "its events were dropped: nothing can be built anew from them, and its rows stay as they are"})
			continue
		}
		if g.Kind == Dropped {
			result.Left = append(result.Left, Unmade{g, fmt.Sprintf("%s: the journal begins with version %d", ErrDropped, g.First)})
			continue
		}
		if g.needsDecision() && !rewrite {
			result.Left = append(result.Left, Unmade{g, "the journal is another one than was applied: decide which is right"})
			continue
		}
		var blamed *eventError
		err := p.replayAlone(ctx, g.Stream, g.Kind != Trailing && (g.Kind != MissingWatermark || g.rows))
		switch {
		case err != nil && ctx.Err() != nil: // the caller's time is over, which is no event's fault
			return result, fmt.Errorf("repair: %w", context.Cause(ctx))
		case errors.As(err, &blamed):
			result.Left = append(result.Left, Unmade{g, err.Error()})
		case err != nil:
			return result, fmt.Errorf("repair: %w", err)
		default:
			result.Repaired = append(result.Repaired, g)
			p.metrics.repaired.Inc()
			p.log.InfoContext(ctx, "a gap was repaired", "stream", g.Stream, "kind", g.Kind)
		}
		if progress != nil {
			progress(i+1, len(gaps))
		}
	}
	return result, nil
}

// dropped returns the gaps' streams whose events were all dropped with their parts.
func (p *Projection) dropped(ctx context.Context, gaps []Gap) (map[string]bool, error) {
	asked := make([]watermark, len(gaps))
	for i, g := range gaps {
		asked[i] = watermark{stream: g.Stream, applied: 1}
	}
	heads, err := p.journal.withDropped(ctx, p.cfg.Pool, asked, nil, false)
	dropped := make(map[string]bool, len(heads))
	for _, h := range heads {
		dropped[h.stream] = true
	}
	return dropped, err
}

// startUp looks for gaps, repairs them, and plans the streams that are behind.
func (p *Projection) startUp(ctx context.Context) error {
	report, behind, err := p.detect(ctx, 0, true)
	if err != nil {
		return fmt.Errorf("look for gaps: %w", err)
	}
	var gaps []Gap
	for _, g := range report.Gaps {
		if g.Kind == Trailing || g.Kind == MissingWatermark && !g.rows {
			continue // merely behind, or new: the workers' work
		}
		if g.Kind == Dropped && g.Applied == 0 {
			return fmt.Errorf("%w: the journal has stream %q from version %d on", ErrDropped, g.Stream, g.First)
		}
		gaps = append(gaps, g)
		p.log.WarnContext(ctx, "a gap", "stream", g.Stream, "kind", g.Kind, "applied", g.Applied, "expected", g.Expected, "journal", g.Journal)
	}
	p.metrics.found.Add(float64(len(gaps)))
	if !p.cfg.NoRepair {
		repaired, err := p.Repair(ctx, gaps, false, nil)
		if err != nil {
			return err
		}
		for _, left := range repaired.Left {
			p.log.ErrorContext(ctx, "a gap is left to you", "stream", left.Stream, "kind", left.Kind, "reason", left.Reason)
		}
	}
	p.log.InfoContext(ctx, "looked for gaps", "streams", report.Streams, "behind", len(behind), "gaps", len(gaps))
	_, err = p.Announce(ctx, behind) // the sweep, which comes next, finds those that others are applying
	return err
}

// gaugeInterval is the longest time between two looks at the schedule for the metrics.
const gaugeInterval = 5 * time.Second

// sweep looks again and again for versions that no message announced, and for the dead. It returns nil when the context ended.
func (p *Projection) sweep(ctx context.Context) error {
	var behind map[string]int64 // found and not announced yet
	for next := time.Now(); ; {
		thorough := !time.Now().Before(next)
		if thorough {
			next = time.Now().Add(p.cfg.SweepInterval)
		}
		var err error
		if behind, err = p.look(ctx, thorough, behind); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the sweep could not look", "error", err)
		}
		if dead := closed.Pool(err); dead != nil || !p.idle(ctx, min(max(time.Until(next), 0), gaugeInterval), true) {
			return dead // the journal's, of which claims do not tell
		}
	}
}

// look returns the versions that it could not announce, of streams that are being applied. Nothing waits for these, they are tried again with
// the next look.
func (p *Projection) look(ctx context.Context, thorough bool, behind map[string]int64) (map[string]int64, error) {
	if thorough {
		_, found, err := p.detect(ctx, 0, false)
		if err != nil {
			return behind, err
		}
		behind = found
	}
	done, err := p.Announce(ctx, behind)
	if err != nil {
		return behind, err
	}
	for _, stream := range done {
		delete(behind, stream)
	}
	s, err := p.Summary(ctx)
	if err != nil {
		return behind, err
	}
	p.metrics.show(s)
	if s.Dead > 0 && thorough {
		p.log.ErrorContext(ctx, "streams stand still behind a dead event: requeue them", "streams", s.Dead,
			"events_behind", s.EventsBehindDead, "oldest", s.OldestDeadAge.Round(time.Second))
	}
	return behind, nil
}

// replayAlone replays one stream in a transaction of its own.
func (p *Projection) replayAlone(ctx context.Context, stream string, fromScratch bool) error {
	return p.alone(ctx, stream, func(tx pgx.Tx) error { return p.replay(ctx, tx, stream, fromScratch) })
}

// alone works on a stream, or on none, in a transaction of its own, and again where others were in its way, as workers do.
func (p *Projection) alone(ctx context.Context, stream string, do func(pgx.Tx) error) error {
	for {
		err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
			if err := p.enter(ctx, tx); err != nil {
				return err
			}
			return do(tx)
		})
		if !pg.Refused(err, "40", "55P03") || !p.idle(ctx, outagePause, true) {
			return err
		}
		p.log.WarnContext(ctx, "others were in the way; it is tried again", "stream", stream, "again_in", outagePause, "error", pg.WithCure(err))
	}
}

func (p *Projection) erase(ctx context.Context, tx pgx.Tx, stream string) error {
	for _, t := range p.cfg.Projector.Tables() {
		if _, err := tx.Exec(ctx, `DELETE FROM `+quote(t.Name)+` WHERE `+quote(t.Stream)+` = $1`, stream); err != nil {
			return fmt.Errorf("delete the rows of stream %q in %s: %w", stream, t.Name, err)
		}
	}
	return nil
}

// seize locks the stream, which it adds if it is unknown. It waits for a worker that is applying it.
func (p *Projection) seize(ctx context.Context, tx pgx.Tx, stream string) (at position, err error) {
	if _, err = p.sql.Ensure.Exec(ctx, tx, pg.Args{"stream": stream}); err != nil {
		return at, fmt.Errorf("lock stream %q: %w", stream, err)
	}
	if err = p.sql.Seize.Row(ctx, tx, pg.Args{"stream": stream}).Scan(&at.applied, &at.expected, &at.wanted, &at.event); err != nil {
		return at, fmt.Errorf("lock stream %q: %w", stream, err)
	}
	return at, nil
}

// replay applies, within tx, the journal's events of a stream behind its watermark. From scratch it ends at the watermark,
// so that a dead head behind it is no obstacle, or at the journal's end without one.
func (p *Projection) replay(ctx context.Context, tx pgx.Tx, stream string, fromScratch bool) error {
	at, err := p.seize(ctx, tx, stream)
	if err != nil {
		return err
	}
	wanted, until := at.wanted, int64(math.MaxInt64)
	if fromScratch {
		if until, err = p.target(ctx, tx, stream, at); err != nil {
			return err
		}
		if err := p.erase(ctx, tx, stream); err != nil {
			return err
		}
		at = position{}
	}
	at.begins = p.cfg.FromKept && !fromScratch
	for at.applied < until {
		limit := int(min(int64(p.cfg.BatchEvents), until-at.applied))
		events, err := p.next(ctx, tx, stream, at, limit)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		if err := p.applyAll(ctx, tx, events); err != nil {
			return err
		}
		end := events[len(events)-1]
		at = position{applied: end.Version, event: &end.ID}
	}
	if fromScratch && until == math.MaxInt64 {
		wanted = at.applied // the journal has no more
	}
	sum, err := p.print(ctx, tx, stream)
	if err != nil {
		return err
	}
	args := pg.Args{"stream": stream, "applied": at.applied, "event": at.event, "print": sum, "wanted": wanted}
	if _, err := p.sql.Put.Exec(ctx, tx, args); err != nil {
		return fmt.Errorf("move the watermark of stream %q: %w", stream, err)
	}
	return nil
}

// target is the end of a replay from scratch: the watermark if the journal has that version, and the wanted one, else the journal's end.
func (p *Projection) target(ctx context.Context, tx pgx.Tx, stream string, at position) (int64, error) {
	if at.applied == 0 || at.event == nil {
		return math.MaxInt64, nil
	}
	events, err := p.journal.events(ctx, tx, stream, at.applied, 1)
	if err != nil {
		return 0, err
	}
	if len(events) == 0 || events[0].Version != at.applied || events[0].ID != *at.event {
		return math.MaxInt64, nil
	}
	if at.wanted > at.applied {
		if events, err = p.journal.events(ctx, tx, stream, at.wanted, 1); err != nil || len(events) == 0 {
			return math.MaxInt64, err
		}
	}
	return at.applied, nil
}
