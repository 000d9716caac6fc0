package projection

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// ApplyTx applies the journal's events of these streams behind their watermarks, with those that tx itself has appended: call it after
// AppendTx and before the commit. Event, effect and watermark are committed together or not at all. After an error, which wraps the projector's,
// roll tx back. It waits for a stream that other producers or repairs are applying. ErrMode except in mode inline; Prepare has to have run.
func (p *Projection) ApplyTx(ctx context.Context, tx pgx.Tx, streams ...string) error {
	if p.cfg.Mode != Inline {
		return fmt.Errorf("%w: ApplyTx needs mode inline; in mode %s workers apply", ErrMode, p.cfg.Mode)
	}
	// In one order, so that two transactions with the same streams do not wait for each other.
	streams = slices.Compact(slices.Sorted(slices.Values(streams)))
	leave, err := p.visit(ctx, tx)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	for _, stream := range streams {
		if err := p.replay(ctx, tx, stream, false); err != nil {
			p.metrics.failed.Inc()
			return fmt.Errorf("apply: %w", err)
		}
	}
	if err := leave(); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return nil
}

// CatchUp is Run's start for mode inline: it prepares, looks for gaps, repairs them (Config.NoRepair), and applies what it can of the streams
// behind. progress, if set, hears after every stream.
func (p *Projection) CatchUp(ctx context.Context, progress func(done, all int)) (Repaired, error) {
	if p.cfg.Mode != Inline {
		return Repaired{}, fmt.Errorf("%w: CatchUp needs mode inline; in mode %s Run does that", ErrMode, p.cfg.Mode)
	}
	if err := p.Prepare(ctx); err != nil {
		return Repaired{}, err
	}
	report, err := p.Detect(ctx, 0)
	if err != nil {
		return Repaired{}, err
	}
	gaps := report.Gaps
	if p.cfg.NoRepair {
		gaps = slices.DeleteFunc(gaps, func(g Gap) bool { return g.Kind != Trailing && (g.Kind != MissingWatermark || g.rows) })
	}
	return p.Repair(ctx, gaps, false, progress)
}

// visit gives the caller's transaction the settings of the projection; leave restores its own.
func (p *Projection) visit(ctx context.Context, tx pgx.Tx) (leave func() error, err error) {
	names := []string{
		"search_path", "TimeZone", "DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output", "idle_in_transaction_session_timeout",
	}
	values, err := pg.Collect(ctx, tx, p.sql.Settings, pg.Args{"names": names}, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if err := p.enter(ctx, tx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := p.sql.SettingsBack.Exec(ctx, tx, pg.Args{"names": names, "values": values})
		return err
	}, nil
}
