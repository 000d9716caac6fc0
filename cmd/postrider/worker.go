package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/worker"
)

// running is a worker of this process, for its screens and ticks.
type running struct {
	*worker.Worker
	ended chan struct{}
	err   error // the error of its end
}

// newWorker wires a worker with the process's metrics and traces. The app's Start joins the cluster, its Stop drains, releases and
// leaves.
func newWorker(ctx context.Context, c worker.Config, w **running) *fx.App {
	return fx.New(
		fx.Supply(c, fx.Annotate(ctx, fx.As(new(context.Context)))),
		fx.Provide(newRegistry, newTraces, openWorker),
		fx.Populate(w),
		fx.StartTimeout(time.Minute),
		fx.StopTimeout(2*c.Coordinator.DrainTimeout+5*time.Second), // above the drain's own bound
		fx.WithLogger(func() fxevent.Logger {
			l := &fxevent.SlogLogger{Logger: c.Logger}
			l.UseLogLevel(slog.LevelDebug)
			l.UseErrorLevel(slog.LevelDebug) // the command reports the error itself
			return l
		}),
	)
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// openWorker makes the worker run from the app's start to its stop.
func openWorker(ctx context.Context, lc fx.Lifecycle, c worker.Config, registry *prometheus.Registry, t *traces) (*running, error) {
	c.Registerer = registry
	if t != nil {
		c.TracerProvider = func(id partition.WorkerID) (trace.TracerProvider, error) { return t.start(ctx, id) }
	}
	if c.Monitor != nil {
		c.Monitor.Options.Gatherer = registry
	}
	w, err := worker.New(ctx, c)
	if err != nil {
		t.end(ctx) // the hooks of an app that never started are not run
		return nil, refusedFor(worker.ErrConfig, err)
	}
	r := &running{Worker: w, ended: make(chan struct{})}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			go func() {
				defer close(r.ended)
				defer t.end(work)
				r.err = w.Run(work)
			}()
			return nil
		},
		OnStop: func(within context.Context) error {
			stop()
			select {
			case <-r.ended:
				return nil
			case <-within.Done():
				return fmt.Errorf("the worker did not stop in time: %w", within.Err())
			}
		},
	})
	return r, nil
}

// refusedFor makes a refusal of an error that wraps cause.
func refusedFor(cause, err error) error {
	if errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}
