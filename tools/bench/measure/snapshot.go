package measure

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
)

// snapshot is the case of a backlog behind the dead rows of what was published before it.
type snapshot struct {
	shape // its events are what is published before
	then  int
	hold  bool // an old snapshot, so that vacuum can remove nothing
}

func (c snapshot) run(ctx context.Context, b *Bench) (_ Sample, err error) {
	d, err := b.database(ctx, c.shape)
	if err != nil {
		return Sample{}, err
	}
	if err := d.restore(ctx, true); err != nil {
		return Sample{}, err
	}
	n, err := b.broker(ctx, brokerShape{replicas: 1})
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	relay := relayShape{mode: "fenced", order: ledger.ByPartition}
	workers, err := b.startRelay(ctx, d, n, relay)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, stopWorkers(workers)) }()
	if c.hold {
		release, err := d.hold(ctx)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	first := drain{shape: c.shape}
	if _, err := first.timed(ctx, b, d, n, children(workers), func() (time.Time, error) { return d.resume(ctx) }); err != nil {
		return Sample{}, err
	}
	if !c.hold {
		if err := d.execute(ctx, `VACUUM outbox_ready`); err != nil {
			return Sample{}, err
		}
	}
	// The rows come in one transaction; its commit is the start.
	second := first
	second.events = c.then
	if err := d.execute(ctx, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`, `CHECKPOINT`); err != nil {
		return Sample{}, err
	}
	if err := d.seed(ctx, c.events, c.events+c.then, "outbox_ready", func(int) {}); err != nil {
		return Sample{}, err
	}
	result, err := second.timed(ctx, b, d, n, children(workers), func() (time.Time, error) { return d.resume(ctx) })
	if err != nil {
		return Sample{}, err
	}
	read, err := b.readBack(ctx, n)
	if err != nil {
		return Sample{}, err
	}
	if err := d.check(read, relay.order, c.events+c.then, false); err != nil {
		return Sample{}, err
	}
	return Sample{Events: len(read), Foreign: result.foreign, Values: map[string]float64{
		ValueRate: float64(result.events) / result.took.Seconds(), ValueRelay: result.perEvent(roleRelay, result.events),
		ValuePostgres: result.perEvent(rolePostgres, result.events), ValueNATS: result.perEvent(roleNATS, result.events),
	}}, nil
}

// hold keeps a snapshot of now until it is released.
func (d *database) hold(ctx context.Context) (release func() error, err error) {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	var one int
	if err := tx.QueryRow(ctx, `SELECT 1`).Scan(&one); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return func() error { return tx.Rollback(context.WithoutCancel(ctx)) }, nil
}

func snapshotCases(c Config) []Case {
	s := c.shape()
	s.events = 800_000
	then := c.Events
	if c.Quick {
		s.events, then = 4000, 2000
	}
	const base = "fenced, dead rows removed"
	return []Case{
		{Name: base, relay: true, run: snapshot{shape: s, then: then}.run},
		{Name: "fenced, old snapshot held", Base: base, relay: true, run: snapshot{shape: s, then: then, hold: true}.run},
	}
}
