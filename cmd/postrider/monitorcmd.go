package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// monitorCmd serves the monitor without a worker: it is there when workers are not.
type monitorCmd struct {
	databaseFlags
	httpFlags
	Assignment string        `help:"How the workers share partitions: ${enum}." enum:"modulo,sticky" default:"modulo"`
	LeaseTTL   time.Duration `help:"How long the workers' leases and heartbeats last." default:"10s"`
}

// Help explains below the flags.
func (c *monitorCmd) Help() string {
	return `Pages, API, health and metrics, as the workers serve them, from the database alone: no NATS, no lease, no
delivery. It runs the replays that its pages are asked for. It goes on when all workers are gone, and while the
database is away it shows what it saw last. It is ready when the database answers. What a worker alone knows, its own counters, is on that worker's /metrics.

Example:
  postrider monitor --http-addr 127.0.0.1:8090 --database-url postgres://monitor@db/app`
}

func (c *monitorCmd) validate() error {
	if c.HTTPAddr == "off" {
		return fmt.Errorf("%w: --http-addr is off: there would be nothing to serve", errRefused)
	}
	if err := c.databaseFlags.validate(); err != nil {
		return err
	}
	if err := c.httpFlags.validate(); err != nil {
		return err
	}
	if err := errors.Join(lease.Config{TTL: c.LeaseTTL}.WithDefaults().Validate(), heartbeat.Config{TTL: c.LeaseTTL}.WithDefaults().Validate()); err != nil {
		return fmt.Errorf("%w: --lease-ttl: %w", errRefused, err)
	}
	return nil
}

// Run serves until the context ends.
func (c *monitorCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	log := s.logger()
	return c.serve(s.ctx, log, func(url string) { log.Info("monitor", "url", url) })
}

// serve serves until the context ends; listening is told where.
func (c *monitorCmd) serve(ctx context.Context, log *slog.Logger, listening func(url string)) error {
	pool, err := c.pool(ctx, "postrider monitor", 3)
	if err != nil {
		return err
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	info, err := checkSchema(ctx, pool, c.Schema, 0)
	if err != nil {
		return err
	}
	source, err := sourceOf(ctx, pool, c.Schema, info, ui.SourceConfig{
		Strategy: partition.Strategy(c.Assignment), HeartbeatTTL: c.LeaseTTL,
	})
	if err != nil {
		return err
	}
	people, err := c.pool(ctx, "postrider operator", 2)
	if err != nil {
		return err
	}
	defer people.Close()
	events, err := eventsOf(info)
	if err != nil {
		return err
	}
	operator, err := ops.New(ctx, people, c.Schema, events)
	if err != nil {
		return err
	}
	replays, err := replay.New(ctx, people, c.Schema, events)
	if err != nil {
		return err
	}
	server, err := c.newMonitor(ctx, source, operator, replays, newRegistry(), pool.Ping, log)
	if err != nil {
		return err
	}
	listening(server.URL())
	return server.Run(ctx)
}
