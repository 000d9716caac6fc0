package worker

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/ui"
)

// operatorConnections serve people apart: their statements must not hold up leases and deliveries.
const operatorConnections = 2

// resizeConnections serve a resize by the monitor: a lock, its renewal, and the rows.
const resizeConnections = 4

// listens reports whether the monitor has a server of its own.
func (w *Worker) listens() bool { return w.monitor != nil && w.cfg.Monitor.Addr != "" }

func (w *Worker) openMonitor(ctx context.Context) error {
	if w.cfg.Monitor == nil {
		return nil
	}
	config := *w.cfg.Monitor
	o := &config.Options
	o.Ready, o.Version, o.Logger = w.Ready, w.cfg.Heartbeat.Version, w.log
	o.Gatherer = cmp.Or[prometheus.Gatherer](o.Gatherer, w.metrics)
	workers, err := heartbeat.NewStore(w.control, w.cfg.Schema)
	if err != nil {
		return err
	}
	look := ui.SourceConfig{
		Workers: workers, Leases: w.leases, Deliveries: w.store, Self: w.ID(), Own: w.board.List, Closing: w.over,
		Strategy: w.cfg.Coordinator.Strategy, HeartbeatTTL: w.cfg.Heartbeat.TTL,
	}
	if w.cfg.Alone {
		look.Alone = w.beater.Self
	}
	source, err := ui.NewSource(look)
	if err != nil {
		return err
	}
	pool, err := w.openPool(ctx, pg.Connections{Name: "operator", Most: operatorConnections})
	if err != nil {
		return err
	}
	operator, err := ops.New(ctx, pool, w.cfg.Schema, w.events)
	if err != nil {
		return err
	}
	if o.Replays, err = replay.New(ctx, pool, w.cfg.Schema, w.events); err != nil {
		return err
	}
	if !w.cfg.Alone { // a worker alone yields no partition: the resize would end it, and itself with it
		o.Resizes = w.resizes(pool)
	}
	if w.monitor, err = ui.Compose(ctx, config, source, operator, w.metrics); err != nil {
		return field("Monitor", err)
	}
	w.opened = append(w.opened, w.monitor.Close)
	if w.listens() {
		_, err = w.monitor.Listen(ctx)
	}
	return field("Monitor (--http-addr)", err)
}

// resizes returns the runner of resizes. It shares this worker's publisher, since taking a partition leaves no state there.
func (w *Worker) resizes(look *pgxpool.Pool) *resize.Runner {
	broker := resize.Broker{
		Publisher: w.publisher, Ring: func(bell string) { _ = w.nc.Publish(outbox.BellSubject(w.cfg.Schema)+bell, nil) }, Close: func() {},
	}
	return resize.NewRunner(resize.Config{
		Schema: w.cfg.Schema, Events: w.events, Logger: w.log, Connect: func(context.Context) (resize.Broker, error) { return broker, nil },
	}, look, func(ctx context.Context) (*pgxpool.Pool, error) {
		return w.newPool(ctx, pg.Connections{Name: "resize", Most: resizeConnections})
	})
}
