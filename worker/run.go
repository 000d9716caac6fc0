package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Run joins the cluster and delivers until the context ends; then it drains, releases its leases, leaves, and returns nil. It returns the
// error of the first part that fails, after the others stopped in order. A worker runs once: Run closes it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.Close()
	parts := []part{
		{name: "coordinator", run: w.coordinator.Run},
		{name: "sweeper", run: w.sweeper.Run},
		{name: "conditions", run: w.watchConditions},
		{name: "connection", run: w.watchConnection},
		{name: "preconditions", run: w.watchPreconditions},
	}
	if w.cfg.Alone {
		parts[0] = part{name: "relay", run: w.runAlone}
	}
	if w.logBell != nil {
		parts = append(parts, part{name: "log's bell", run: w.logBell.Run})
	}
	if w.canary != nil {
		parts = append(parts, part{name: "canary", run: w.canary.run})
	}
	if w.audit != nil {
		parts = append(parts, part{name: "audit", run: w.audit.Run})
	}
	if w.listens() {
		parts = append(parts, part{name: "monitor", run: w.monitor.Run})
	} else if w.monitor != nil {
		parts = append(parts, part{name: "work of the monitor", run: w.monitor.Work})
	}
	working, end := context.WithCancel(ctx)
	defer end()
	for i := range parts {
		parts[i].start(ctx, end)
	}
	<-working.Done()
	var all error
	for _, p := range slices.Backward(parts) {
		all = errors.Join(all, p.stop())
	}
	return all
}

// part is a component that runs from the worker's start to its stop.
type part struct {
	name  string
	run   func(context.Context) error
	cease context.CancelFunc
	ended chan error
}

// start runs the part until stop, not until ctx ends, as the parts stop one after the other. A part that ends by itself ends the worker.
func (p *part) start(ctx context.Context, end func()) {
	ctx, p.cease = context.WithCancel(context.WithoutCancel(ctx))
	p.ended = make(chan error, 1)
	go func() {
		defer end()
		p.ended <- p.run(ctx)
	}()
}

func (p *part) stop() error {
	p.cease()
	if err := <-p.ended; err != nil && !errors.Is(err, context.Canceled) { // it was stopped before it began
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// errFenced ends a worker without leases when another worker took over.
var errFenced = errors.New("another worker took the partitions over, or the database is older than its stream; a worker without leasing (--no-leasing) must run alone")

// runAlone delivers every partition without coordination.
func (w *Worker) runAlone(ctx context.Context) error {
	leases, err := w.keeper.AcquireSolo(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopDraining := context.AfterFunc(ctx, func() { // a stop waits for events in flight, not for whole batches
		for _, l := range leases {
			l.Drain()
		}
	})
	defer stopDraining()
	for _, l := range leases {
		stop := context.AfterFunc(l.Context(), func() { cancel(errFenced) }) //nolint:contextcheck // the lease's context has a life of its own
		defer stop()
	}
	work := w.relay.Run
	if w.cfg.Once {
		work = w.relay.RunOnce
	}
	if err := work(ctx, w.keeper.Set()); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errFenced) {
		return errFenced
	}
	return nil
}
