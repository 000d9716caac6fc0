package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/outbox/schema"
)

// The publish modes.
const (
	modeAuto   = "auto"
	modeFenced = "fenced"
	modeDedupe = "dedupe"
)

// cluster knows how many workers there are, once there is a coordinator.
type cluster struct {
	coordinator atomic.Pointer[coordinator.Coordinator]
}

// batches is this worker's share of the atomic batches that one stream admits.
func (c *cluster) batches() int {
	members := 1
	if made := c.coordinator.Load(); made != nil {
		members = max(1, made.Members())
	}
	return min(max(1, natspub.MaxBatchesTotal/members), natspub.MaxBatchesTotal/2)
}

// newPublisher checks the stream and returns the publisher of the mode.
func newPublisher(ctx context.Context, lc fx.Lifecycle, cfg workerConfig, nc *nats.Conn, members *cluster, info schema.Info) (delivery.Publisher, error) {
	shape, err := cfg.worker.shape(cfg.worker.Subject)
	if err != nil {
		return nil, err
	}
	duplicates, err := time.ParseDuration(cfg.create.StreamDuplicate)
	if err != nil {
		return nil, fmt.Errorf("%w: --stream-duplicate-window: %w", errRefused, err)
	}
	stream, err := natspub.EnsureStream(ctx, nc, natspub.StreamConfig{
		Name: cfg.worker.Stream, Subject: shape.Subject, Create: cfg.create.CreateStream,
		Replicas: cfg.create.StreamReplicas, Memory: cfg.create.StreamStorage == "memory",
		Duplicates: duplicates, Logger: cfg.log,
	})
	if err != nil {
		return nil, err
	}
	mode, err := publishMode(cfg, nc, stream)
	if err != nil {
		return nil, err
	}
	cfg.log.Info("publishing", "mode", mode, "ordering", cfg.worker.Ordering, "stream", cfg.worker.Stream)
	if mode == modeDedupe {
		publisher, err := natspub.NewDedupe(nc, natspub.DedupeConfig{
			Stream: cfg.worker.Stream, Shape: shape,
			AckTimeout: cfg.worker.AckTimeout, MaxMessageSize: natspub.LargestMessage(stream.Config),
		})
		if err == nil {
			lc.Append(fx.StopHook(func() { _ = publisher.Close() }))
		}
		return publisher, err
	}
	flights := 1
	if stream.Config.Replicas > 1 {
		flights = 3
	}
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{
		Flights: flights,
		Stream:  cfg.worker.Stream, Shape: shape,
		Outbox: info.OutboxID, AckTimeout: cfg.worker.AckTimeout, MaxMessageSize: natspub.LargestMessage(stream.Config),
		InFlight: members.batches, NeverExpire: stream.Config.MaxAge > 0,
	})
	if err == nil {
		lc.Append(fx.StopHook(func() { _ = publisher.Close() }))
	}
	return publisher, err
}

// publishMode decides between the modes, and refuses a stream on which the chosen one would not keep its promise.
func publishMode(cfg workerConfig, nc *nats.Conn, stream *jetstream.StreamInfo) (string, error) {
	if cfg.worker.PublishMode == modeDedupe {
		return modeDedupe, nil
	}
	can, why := natspub.CanFence(nc, stream)
	switch {
	case !can && cfg.worker.PublishMode == modeFenced:
		return "", fmt.Errorf("%w: --publish-mode fenced: %s", errRefused, why)
	case !can:
		cfg.log.Warn("publishing in mode dedupe: a crash may repeat messages, under the same id", "why", why)
		return modeDedupe, nil
	}
	return modeFenced, natspub.CheckFence(stream.Config)
}

func newRelay(ctx context.Context, cfg workerConfig, p *pools, store *delivery.Store, publisher delivery.Publisher, b *bells, registry *prometheus.Registry, traces tracer, board *condition.Board, info schema.Info) (*delivery.Relay, error) {
	c, err := cfg.worker.relay()
	if err != nil {
		return nil, err
	}
	c.MaxPayload = largestPayload(info)
	if c.Ordering == delivery.OrderPartition {
		if err := checkStrict(ctx, cfg, p, info); err != nil {
			return nil, err
		}
	}
	c.Board, c.Registerer, c.Logger = board, registry, cfg.log
	if traces.observer != nil {
		c.Observer = traces.observer
	}
	return delivery.NewRelay(c, store, publisher, b.work)
}

// checkStrict refuses strict order where it cannot be kept, naming everything that stands against it.
func checkStrict(ctx context.Context, cfg workerConfig, p *pools, info schema.Info) error {
	relation, err := eventsOf(info)
	if err != nil {
		return err
	}
	violations, err := delivery.CheckStrict(ctx, p.data, cfg.database.Schema, relation)
	if err != nil {
		return err
	}
	var all []error
	for _, v := range violations {
		if !v.Warning { // warnings are for `postrider doctor`
			all = append(all, errors.New(v.String()))
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%w: --ordering partition cannot be kept here: %w", errRefused, errors.Join(all...))
	}
	return nil
}
