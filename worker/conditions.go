package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
)

func (w *Worker) openBroker(context.Context) (err error) {
	// The worker's options come last: a connection that is given up would never deliver again. Publishers refuse one that buffers messages.
	options := append(slices.Clone(w.cfg.NATSOptions), nats.MaxReconnects(-1), w.heardRefusals())
	if w.nc, err = wire.Connect(w.cfg.NATSURL, "postrider", w.log, options...); err != nil {
		return field("NATSURL (--nats-url)", err)
	}
	w.opened = append(w.opened, w.nc.Close)
	return nil
}

// heardRefusals reports a refusal of NATS at once: a refused request gets no answer, so it would time out. A probe repeats requests to
// JetStream each second, and nothing depends on a doorbell.
func (w *Worker) heardRefusals() nats.Option {
	ignored := []string{"$JS.", outbox.BellSubject(w.cfg.Schema)}
	if w.cfg.Stream.APIPrefix != "" {
		ignored = append(ignored, w.cfg.Stream.APIPrefix+".")
	}
	return func(o *nats.Options) error {
		tell := o.AsyncErrorCB
		o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if tell != nil {
				tell(nc, sub, err)
			}
			_, subject, publishing := strings.Cut(err.Error(), `Permissions Violation for Publish to "`)
			if errors.Is(err, nats.ErrPermissionViolation) && publishing && !slices.ContainsFunc(ignored, func(i string) bool { return strings.HasPrefix(subject, i) }) {
				w.board.Report(condition.Delivery, err)
			}
		}
		return nil
	}
}

// watchConditions probes both servers each second, so that a cause is known even while no event waits.
func (w *Worker) watchConditions(ctx context.Context) error {
	needs := pg.Needs(w.store.Way(), w.leases.Way())
	return w.board.Watch(ctx,
		condition.Probe{Source: condition.Connection, Ask: func(context.Context) error { return w.connected() }},
		condition.Probe{Source: condition.Stream, Ask: func(ctx context.Context) error {
			if !w.nc.IsConnected() {
				return nil
			}
			now, err := w.relay.Look(ctx)
			if err != nil && w.relay.Flows() { // the server is busy, not away
				return nil
			}
			if err != nil {
				closed.Rehear(w.nc)
			}
			return cmp.Or(err, now.Unfit)
		}},
		condition.Probe{Source: condition.Database, Ask: func(ctx context.Context) error { return pgstore.CheckDatabase(ctx, w.control, needs...) }},
	)
}

// preconditionsEvery is the interval of checks of a start's preconditions: each takes one round trip of some milliseconds.
const preconditionsEvery = 30 * time.Second

// watchPreconditions has delivery pause while a precondition of the order does not hold.
func (w *Worker) watchPreconditions(ctx context.Context) error {
	every := time.NewTicker(preconditionsEvery)
	defer every.Stop()
	for told := ""; ; {
		told = w.tellFaults(ctx, told)
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		ask, cancel := context.WithTimeout(ctx, preconditionsEvery)
		err := pgstore.RequireOrder(ask, w.control, w.cfg.Schema, w.events, w.cfg.Delivery.WithDefaults().Ordering)
		cancel()
		if err != nil && !errors.Is(err, pgstore.ErrStrict) { // an outage shows elsewhere
			continue
		}
		if err != nil {
			err = &condition.Error{Reason: condition.DatabaseUnfit, Err: err}
		}
		w.board.Report("preconditions", err)
		w.relay.Hold(err)
	}
}

// tellFaults logs why writes fail or have no events, and returns that text; it does not repeat told.
func (w *Worker) tellFaults(ctx context.Context, told string) string {
	ctx, cancel := context.WithTimeout(ctx, preconditionsEvery)
	defer cancel()
	faults, err := w.store.WriteFaults(ctx)
	if err != nil { // an outage shows elsewhere
		return told
	}
	var all []string
	for _, f := range faults {
		all = append(all, f.String())
	}
	now := strings.Join(all, "; ")
	switch now {
	case told:
	case "":
		w.log.Info("nothing keeps writes from having events any more")
	default:
		w.log.Warn("writes fail or have no events", "faults", now)
	}
	return now
}

// ErrClosed ends a worker whose NATS client gave the connection up for good. It does so after some refusals of the server, such as of a
// message above a lowered max_payload. Another worker can take its place.
var ErrClosed = closed.Err

// watchConnection returns when nothing can be sent on the connection any more.
func (w *Worker) watchConnection(ctx context.Context) error { return closed.Connection(ctx, w.nc) }

// connected returns an error while there is no connection to NATS.
func (w *Worker) connected() error {
	switch {
	case w.nc.IsConnected():
		return nil
	case w.nc.LastError() != nil:
		return fmt.Errorf("%w: %w", wire.ErrNotConnected, w.nc.LastError())
	}
	return wire.ErrNotConnected
}

// Ready returns why this worker cannot deliver; nil: it can.
func (w *Worker) Ready(ctx context.Context) error {
	if err := w.board.Err(); err != nil {
		return err
	}
	if err := w.connected(); err != nil {
		return err
	}
	return w.control.Ping(ctx)
}
