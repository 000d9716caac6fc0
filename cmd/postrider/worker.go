package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/buildinfo"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// workerConfig is everything that one worker needs.
type workerConfig struct {
	database   databaseFlags
	nats       natsFlags
	worker     workerFlags
	create     createFlags
	http       httpFlags
	partitions int
	noLeasing  bool
	once       bool
	log        *slog.Logger
}

// worker is a wired worker, for those who watch it.
type worker struct {
	fx.In

	Coordinator *coordinator.Coordinator
	Beater      *heartbeat.Beater
	Keeper      *lease.Keeper
	Relay       *delivery.Relay
	Registry    *prometheus.Registry
	Source      ui.Source
	Failure     *failure
	Info        schema.Info
	Monitor     *ui.Server `optional:"true"`
}

// failure keeps the errors with which components ended the app.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// stopTimeout bounds an orderly stop; it lies above the drain's own bound.
func (c workerConfig) stopTimeout() time.Duration { return 2*c.worker.DrainTimeout + 5*time.Second }

// undo takes back what constructors opened when a later one fails: the hooks of an app that never started are not run.
type undo struct{ steps []func() }

func (u *undo) add(lc fx.Lifecycle, step func()) {
	u.steps = append(u.steps, step)
	lc.Append(fx.StopHook(step))
}

// newWorker wires a worker. The app's Start joins the cluster, its Stop drains, releases and leaves.
func newWorker(ctx context.Context, cfg workerConfig, w *worker) *fx.App {
	var opened undo
	options := []fx.Option{
		fx.Supply(cfg, &opened, fx.Annotate(ctx, fx.As(new(context.Context)))),
		fx.Provide(
			newPools, newConnection, newStores, newBells, newBeater, newKeeper, newTracer, newPublisher, newRelay, newCoordinator,
			newSource, newRegistry, newBoard, newSchemaInfo,
			func() *failure { return &failure{} },
			func() *cluster { return &cluster{} },
		),
		fx.Invoke(startWork, startSweeper, startLogBell, registerProbes, startConditions),
		fx.StartTimeout(time.Minute),
		fx.StopTimeout(cfg.stopTimeout()),
		fx.WithLogger(func() fxevent.Logger {
			l := &fxevent.SlogLogger{Logger: cfg.log}
			l.UseLogLevel(slog.LevelDebug)
			l.UseErrorLevel(slog.LevelDebug) // the command reports the error itself
			return l
		}),
	}
	if cfg.http.HTTPAddr != "off" {
		options = append(options, fx.Provide(newOperations, newMonitorServer), fx.Invoke(startMonitor))
	}
	app := fx.New(append(options, fx.Invoke(func(in worker) { *w = in }))...)
	if app.Err() != nil {
		for _, step := range slices.Backward(opened.steps) {
			step()
		}
	}
	return app
}

// pools keep the kinds of work apart: heartbeats, leases and delivery cannot starve each other.
type pools struct {
	heartbeat, control, data *pgxpool.Pool
}

func newPools(ctx context.Context, lc fx.Lifecycle, opened *undo, cfg workerConfig) (*pools, error) {
	var p pools
	// Whatever holds a lease row's lock on a connection that went dark must let go of it in about the time of a lease.
	cfg.database.deadPeer = cfg.worker.LeaseTTL
	for _, one := range []struct {
		pool **pgxpool.Pool
		name string
		size int32
	}{{&p.heartbeat, "heartbeat", 1}, {&p.control, "control", 3}, {&p.data, "delivery", 8}} {
		pool, err := cfg.database.pool(ctx, "postrider "+one.name, one.size)
		if err != nil {
			return nil, err
		}
		*one.pool = pool
		opened.add(lc, pool.Close)
	}
	return &p, nil
}

// newSchemaInfo makes sure that the tables are there and fit, and that the server can be worked with, before anything else is made.
func newSchemaInfo(ctx context.Context, cfg workerConfig, p *pools) (schema.Info, error) {
	info, err := checkSchema(ctx, p.control, cfg.database.Schema, cfg.partitions)
	if err != nil {
		return info, err
	}
	if err := delivery.CheckDatabase(ctx, p.control); err != nil {
		return info, fmt.Errorf("database (--database-url): %w", err)
	}
	return info, nil
}

func newConnection(lc fx.Lifecycle, opened *undo, cfg workerConfig, board *condition.Board) (*nats.Conn, error) {
	nc, err := cfg.nats.connect("postrider", cfg.log, heardRefusals(board, cfg.database.Schema, cfg.log))
	if err != nil {
		return nil, err
	}
	opened.add(lc, nc.Close)
	return nc, nil
}

type stores struct {
	fx.Out

	Workers    *heartbeat.Store
	Leases     *lease.Store
	Deliveries *delivery.Store
}

func newStores(ctx context.Context, cfg workerConfig, p *pools, info schema.Info) (stores, error) {
	name := cfg.database.Schema
	workers, err := heartbeat.NewStore(p.heartbeat, name)
	if err != nil {
		return stores{}, err
	}
	leases, err := lease.NewStore(p.control, name)
	if err != nil {
		return stores{}, err
	}
	events, err := eventsOf(info)
	if err != nil {
		return stores{}, err
	}
	deliveries, err := delivery.NewStore(ctx, p.data, name, events)
	return stores{Workers: workers, Leases: leases, Deliveries: deliveries}, err
}

// bells are the doorbells of the schema: one for work, one for the cluster.
type bells struct {
	work, cluster *natspub.Bell
}

func newBells(lc fx.Lifecycle, cfg workerConfig, nc *nats.Conn) (*bells, error) {
	var b bells
	subject := outbox.BellSubject(cfg.database.Schema)
	for _, one := range []struct {
		bell    **natspub.Bell
		subject string
	}{{&b.work, subject}, {&b.cluster, subject + ".cluster"}} {
		bell, err := natspub.NewBell(nc, one.subject)
		if err != nil {
			return nil, err
		}
		*one.bell = bell
		lc.Append(fx.StopHook(func() { _ = bell.Close() }))
	}
	return &b, nil
}

func newBeater(cfg workerConfig, store *heartbeat.Store, board *condition.Board) (*heartbeat.Beater, error) {
	c := cfg.worker.heartbeat()
	c.Version, c.Shape, c.Board, c.Logger = buildinfo.Version(), cfg.worker.shapeFlags.settings(), board, cfg.log
	return heartbeat.NewBeater(store, c)
}

func newKeeper(cfg workerConfig, store *lease.Store, beater *heartbeat.Beater) (*lease.Keeper, error) {
	c := cfg.worker.lease()
	c.Logger = cfg.log
	return lease.NewKeeper(store, beater.ID(), c)
}

func newCoordinator(cfg workerConfig, beater *heartbeat.Beater, keeper *lease.Keeper, relay *delivery.Relay, b *bells, members *cluster, registry *prometheus.Registry, traces tracer, board *condition.Board) (*coordinator.Coordinator, error) {
	c := cfg.worker.coordinator()
	c.Board, c.Registerer, c.Logger = board, registry, cfg.log
	if traces.observer != nil {
		c.Observer = traces.observer.Coordinated
	}
	var made *coordinator.Coordinator
	deliver := relay.Run
	if cfg.once {
		deliver = func(ctx context.Context, held *lease.Set) error {
			select {
			case <-made.Planned():
			case <-ctx.Done():
			}
			return relay.RunOnce(ctx, held)
		}
	}
	made, err := coordinator.New(c, beater, keeper, b.cluster, deliver)
	members.coordinator.Store(made)
	return made, err
}

func newSource(cfg workerConfig, p *pools, deliveries *delivery.Store, beater *heartbeat.Beater, board *condition.Board) (ui.Source, error) {
	return workerSource(cfg, p, deliveries, ui.SourceConfig{Self: beater.ID(), Own: board.List})
}

func workerSource(cfg workerConfig, p *pools, deliveries *delivery.Store, c ui.SourceConfig) (ui.Source, error) {
	workers, err := heartbeat.NewStore(p.control, cfg.database.Schema)
	if err != nil {
		return nil, err
	}
	leases, err := lease.NewStore(p.control, cfg.database.Schema)
	if err != nil {
		return nil, err
	}
	c.Workers, c.Leases, c.Deliveries = workers, leases, deliveries
	c.Strategy, c.HeartbeatTTL = partition.Strategy(cfg.worker.Assignment), cfg.worker.heartbeat().TTL
	return ui.NewSource(c)
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func newMonitorServer(
	ctx context.Context, cfg workerConfig, source ui.Source, o operations, registry *prometheus.Registry, p *pools, nc *nats.Conn, board *condition.Board,
) (*ui.Server, error) {
	return cfg.http.newMonitor(ctx, source, o, registry, ready(board, nc, p), cfg.log)
}
