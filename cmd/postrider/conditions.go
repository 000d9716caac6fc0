package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/outbox"
)

// newBoard is where everything in this worker says what keeps it from delivering.
func newBoard(cfg workerConfig, registry *prometheus.Registry) (*condition.Board, error) {
	board := condition.NewBoard(cfg.log, natspub.Reason)
	if err := registry.Register(board); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return board, nil
}

// heardRefusals reports what NATS refuses as soon as it says so: what was refused gets no answer, and would be waited for. Requests to
// JetStream are asked again each second by a probe, and nothing hangs on a bell.
func heardRefusals(board *condition.Board, schema string, log *slog.Logger) nats.Option {
	bell := outbox.BellSubject(schema)
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		log.Warn("NATS reported an error", "error", err)
		_, subject, publishing := strings.Cut(err.Error(), `Permissions Violation for Publish to "`)
		if errors.Is(err, nats.ErrPermissionViolation) && publishing && !strings.HasPrefix(subject, "$JS.") && !strings.HasPrefix(subject, bell) {
			board.Report(condition.Delivery, err)
		}
	})
}

// startConditions asks both servers each second, so that a cause is known although nothing is to be delivered.
func startConditions(
	lc fx.Lifecycle, sd fx.Shutdowner, f *failure, board *condition.Board, nc *nats.Conn, p *pools, publisher delivery.Publisher, relay *delivery.Relay,
) {
	probes := []condition.Probe{
		{Source: condition.Connection, Ask: func(context.Context) error { return connected(nc) }},
		{Source: condition.Stream, Ask: func(ctx context.Context) error {
			if !nc.IsConnected() || relay.Flows() {
				return nil
			}
			_, err := publisher.Extent(ctx)
			return err
		}},
		{Source: condition.Database, Ask: func(ctx context.Context) error { return delivery.CheckDatabase(ctx, p.control) }},
	}
	supervise(lc, sd, f, "conditions", func(ctx context.Context) error { return board.Watch(ctx, probes...) })
}

// connected says why there is no connection to NATS.
func connected(nc *nats.Conn) error {
	switch {
	case nc.IsConnected():
		return nil
	case nc.LastError() != nil:
		return fmt.Errorf("%w: %w", natspub.ErrNotConnected, nc.LastError())
	}
	return natspub.ErrNotConnected
}

// ready tells what keeps this worker from delivering; nil: nothing.
func ready(board *condition.Board, nc *nats.Conn, p *pools) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := board.Err(); err != nil {
			return err
		}
		if err := connected(nc); err != nil {
			return err
		}
		return p.control.Ping(ctx)
	}
}
