package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/walbell"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui"
)

func startMonitor(lc fx.Lifecycle, sd fx.Shutdowner, server *ui.Server, f *failure) {
	supervise(lc, sd, f, "monitor", server.Run)
}

// startWork runs the coordinator, or delivery alone without leasing.
func startWork(lc fx.Lifecycle, sd fx.Shutdowner, cfg workerConfig, c *coordinator.Coordinator, keeper *lease.Keeper, relay *delivery.Relay, f *failure) {
	switch {
	case cfg.noLeasing:
		supervise(lc, sd, f, "relay", func(ctx context.Context) error { return runSolo(ctx, cfg, keeper, relay) })
	default:
		supervise(lc, sd, f, "coordinator", c.Run)
	}
}

func startSweeper(lc fx.Lifecycle, sd fx.Shutdowner, cfg workerConfig, p *pools, store *delivery.Store, f *failure) error {
	c := cfg.worker.retention()
	c.Logger = cfg.log
	sweeper, err := delivery.NewSweeper(store, p.data, c)
	if err != nil {
		return err
	}
	supervise(lc, sd, f, "sweeper", sweeper.Run)
	return nil
}

// startLogBell rings for producers that do not, where the database lets it. What is delivered once needs no bell.
func startLogBell(lc fx.Lifecycle, sd fx.Shutdowner, cfg workerConfig, p *pools, b *bells, registry *prometheus.Registry, f *failure) error {
	if cfg.once {
		return nil
	}
	listener, err := walbell.New(walbell.Config{Schema: cfg.database.Schema, Ring: b.work.RingFor, Registerer: registry, Logger: cfg.log}, p.control)
	if err != nil {
		return err
	}
	supervise(lc, sd, f, "log's bell", listener.Run)
	return nil
}

// errFenced ends a worker without leasing when another worker took over.
var errFenced = errors.New("another worker took the partitions over; a worker with --no-leasing must run alone")

// runSolo delivers every partition without coordination.
func runSolo(ctx context.Context, cfg workerConfig, keeper *lease.Keeper, relay *delivery.Relay) error {
	leases, err := keeper.AcquireSolo(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopDraining := context.AfterFunc(ctx, func() { // a stop waits for what is in flight, not for whole batches
		for _, l := range leases {
			l.Drain()
		}
	})
	defer stopDraining()
	for _, l := range leases {
		stop := context.AfterFunc(l.Context(), func() { cancel(errFenced) }) //nolint:contextcheck // a lease's end is its own
		defer stop()
	}
	work := relay.Run
	if cfg.once {
		work = relay.RunOnce
	}
	if err := work(ctx, keeper.Set()); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errFenced) {
		return errFenced
	}
	return nil
}

// supervise runs a component from the app's start to its stop. When it ends before, the app is shut down and the error kept.
func supervise(lc fx.Lifecycle, sd fx.Shutdowner, f *failure, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			go func() {
				defer close(ended)
				err := run(ctx)
				if ctx.Err() != nil && err == nil {
					return
				}
				if err != nil {
					f.add(fmt.Errorf("%s: %w", name, err))
				}
				_ = sd.Shutdown()
			}()
			return nil
		},
		OnStop: func(stop context.Context) error {
			cancel()
			select {
			case <-ended:
				return nil
			case <-stop.Done():
				return fmt.Errorf("%s did not stop in time: %w", name, stop.Err())
			}
		},
	})
}
