package projection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// scratchMark is the comment on schemas of integrity checks. A check drops the schemas of killed ones: they have the mark, and nobody holds
// the lock of their check.
const scratchMark = "postrider: scratch of an integrity check"

const scratchLock = `pg_catalog.hashtextextended('postrider scratch ' || $1, 0)`

// scratch makes a projection with the same settings, in a schema of its own, which drop removes.
func (p *Projection) scratch(ctx context.Context) (scratch *Projection, drop func() error, err error) {
	if err := p.clearScratch(ctx); err != nil {
		return nil, nil, err
	}
	scratch = &Projection{cfg: p.cfg, log: p.log, worker: p.worker, journal: p.journal, metrics: p.metrics, wake: make(chan struct{}, 1)}
	if err := scratch.use(p.scratchPrefix() + strings.ToLower(rand.Text()[:scratchRandom])); err != nil {
		return nil, nil, err
	}
	holder, err := p.cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	drop = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		defer holder.Release()
		_, err := holder.Exec(ctx, `DROP SCHEMA IF EXISTS `+quote(scratch.schema)+` CASCADE`)
		if err != nil {
			err = fmt.Errorf("drop schema %s: %w", scratch.schema, err)
		}
		return errors.Join(err, holder.Conn().Close(ctx)) // with the session end its lock and its settings
	}
	_, err = holder.Exec(ctx, `SELECT pg_catalog.pg_advisory_lock(`+scratchLock+`), pg_catalog.set_config('idle_session_timeout', '0', false)`, scratch.schema)
	if err == nil {
		err = scratch.Prepare(ctx)
	}
	if err == nil {
		_, err = holder.Exec(ctx, `COMMENT ON SCHEMA `+quote(scratch.schema)+` IS '`+scratchMark+`'`)
	}
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return scratch, drop, nil
}

const scratchRandom = 8

// scratchPrefix leaves room for the rest within PostgreSQL's 63 bytes.
func (p *Projection) scratchPrefix() string {
	const middle = "_scratch_"
	return p.schema[:min(len(p.schema), 63-len(middle)-scratchRandom)] + middle
}

// clearScratch drops the schemas that killed checks of this projection left.
func (p *Projection) clearScratch(ctx context.Context) error {
	rows, err := p.cfg.Pool.Query(ctx, `SELECT nspname FROM pg_namespace WHERE pg_catalog.starts_with(nspname, $1) AND pg_catalog.length(nspname) = pg_catalog.length($1) + $2
		AND obj_description(oid, 'pg_namespace') = $3`, p.scratchPrefix(), scratchRandom, scratchMark)
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, schema := range left {
		err := pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
			var dead bool
			err := tx.QueryRow(ctx, `SELECT pg_catalog.pg_try_advisory_xact_lock(`+scratchLock+`)`, schema).Scan(&dead)
			if err == nil && dead {
				_, err = tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+quote(schema)+` CASCADE`)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("drop schema %s: %w", schema, err)
		}
	}
	return nil
}
