package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/buildinfo"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// defaultHTTPAddr is the monitor's default address. Where it is taken any free port serves: several workers may run on one machine.
const defaultHTTPAddr = "127.0.0.1:8080"

type httpFlags struct {
	HTTPAddr        string   `name:"http-addr" help:"Address of monitor, API, health and metrics; 'off' for none. Default 127.0.0.1:8080, or a free port where that is taken." placeholder:"HOST:PORT"`
	HTTPUsersFile   string   `name:"http-users-file" help:"File with a line for each user, 'ROLE KIND NAME SECRET', such as 'operate password alice s3cret', or for a trusted proxy, such as 'operate proxy X-Forwarded-User 10.0.0.0/8'; role read-only or operate, kind password, token or proxy." placeholder:"FILE" type:"existingfile"`
	HTTPToken       string   `name:"http-token" help:"Bearer token that may look and act, 'token' in the audit; better given by POSTRIDER_HTTP_TOKEN." placeholder:"TOKEN"`
	HTTPReadOnly    bool     `name:"http-read-only" help:"Refuse all actions."`
	HTTPShowPayload bool     `name:"http-show-payload" help:"Show payloads and metadata to those who may act."`
	HTTPHost        []string `name:"http-host" help:"Further host name under which the monitor may be addressed, path under which a proxy publishes it, or both; repeatable." placeholder:"NAME/PATH"`
	HTTPEnvironment string   `name:"http-environment" help:"Name of the environment, shown as a banner." placeholder:"NAME"`
}

func (f httpFlags) auth() (ui.Auth, error) {
	var auth ui.Auth
	if f.HTTPUsersFile != "" {
		var err error
		if auth, err = ui.ReadAuth(f.HTTPUsersFile); err != nil {
			return ui.Auth{}, fmt.Errorf("%w: --http-users-file: %w", errRefused, err)
		}
	}
	if f.HTTPToken != "" {
		auth.Tokens = append(auth.Tokens, ui.Token{Value: f.HTTPToken, Name: "token", Access: ui.AccessOperate})
	}
	return auth, nil
}

// published returns the host names of requests that the monitor accepts, and the path under which a proxy publishes it.
func (f httpFlags) published() (hosts []string, base string, err error) {
	for _, text := range f.HTTPHost {
		name, _, _ := strings.Cut(text, "/")
		path := text[len(name):]
		if name != "" || path == "" {
			hosts = append(hosts, name)
		}
		if base != "" && path != "" && base != path {
			return nil, "", fmt.Errorf("%w: --http-host names two paths, %s and %s; a monitor has one", errRefused, base, path)
		}
		base = cmp.Or(base, path)
	}
	return hosts, base, nil
}

// server returns the monitor's configuration by the flags; nil: no monitor.
func (f httpFlags) server() (*ui.ServerConfig, error) {
	auth, err := f.auth()
	if err != nil || f.HTTPAddr == "off" {
		return nil, err
	}
	hosts, base, err := f.published()
	if err != nil {
		return nil, err
	}
	return &ui.ServerConfig{Addr: cmp.Or(f.HTTPAddr, defaultHTTPAddr), AnyPort: f.HTTPAddr == "", Options: ui.Options{
		Auth: auth, ShowPayload: f.HTTPShowPayload, ReadOnly: f.HTTPReadOnly, BasePath: base, AllowedHosts: hosts, Environment: f.HTTPEnvironment,
	}}, nil
}

// validate refuses wrong values before anything is started.
func (f httpFlags) validate() error {
	config, err := f.server()
	if err != nil || config == nil {
		return err
	}
	config.Options.Source = struct{ ui.Source }{} // the source does not exist yet
	if err := config.Validate(); err != nil {
		return fmt.Errorf("%w: --http-*: %w", errRefused, err)
	}
	return nil
}

// newMonitor makes the monitor of a process without a worker. It listens when newMonitor returns.
func (f httpFlags) newMonitor(
	ctx context.Context, source ui.Source, operator *ops.Operator, replays *replay.Store, registry *prometheus.Registry, ready func(context.Context) error, log *slog.Logger,
) (*ui.Server, error) {
	config, err := f.server()
	if err != nil {
		return nil, err
	}
	o := &config.Options
	o.Gatherer, o.Ready, o.Version, o.Logger, o.Replays = registry, ready, buildinfo.Version(), log, replays
	server, err := ui.Compose(ctx, *config, source, operator, registry)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	if _, err := server.Listen(ctx); err != nil {
		return nil, fmt.Errorf("monitor (--http-addr): %w", err)
	}
	return server, nil
}

// monitorCmd serves the monitor without a worker: it outlives workers.
type monitorCmd struct {
	databaseFlags
	httpFlags
	Assignment string        `help:"How the workers share partitions: ${enum}." enum:"modulo,sticky" default:"modulo"`
	LeaseTTL   time.Duration `help:"How long the workers' leases and heartbeats last." default:"10s"`
}

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

func (c *monitorCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	log := s.logger()
	return c.serve(s.ctx, log, func(url string) { log.Info("monitor", "url", url) })
}

// serve serves until the context ends; listening gets the URL.
func (c *monitorCmd) serve(ctx context.Context, log *slog.Logger, listening func(url string)) error {
	pool, info, err := c.outbox(ctx, "postrider monitor", 3)
	if err != nil {
		return err
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source, err := sourceOf(ctx, pool, c.Schema, info, ui.SourceConfig{Strategy: partition.Strategy(c.Assignment), HeartbeatTTL: c.LeaseTTL})
	if err != nil {
		return err
	}
	people, err := c.pool(ctx, "postrider operator", 2)
	if err != nil {
		return err
	}
	defer people.Close()
	operator, err := ops.New(ctx, people, c.Schema, info.events)
	if err != nil {
		return err
	}
	replays, err := replay.New(ctx, people, c.Schema, info.events)
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
