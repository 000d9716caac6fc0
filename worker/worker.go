package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/delivery/tracing"
	"github.com/postrider/postrider/delivery/walbell"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// Run runs a worker until the context ends, and returns nil after an orderly stop. See Worker.Run. After ErrClosed another worker takes its
// place.
func Run(ctx context.Context, cfg Config) error {
	for {
		w, err := New(ctx, cfg)
		if err != nil {
			return err
		}
		if err = w.Run(ctx); !errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return err
		}
		w.log.Error("another worker takes the place of one that cannot go on", "error", err)
	}
}

// Worker is one worker of the cluster.
type Worker struct {
	cfg     Config
	log     *slog.Logger
	metrics *prometheus.Registry
	closing sync.Once
	opened  []func()      // the functions that close it, in the order of opening
	over    chan struct{} // closed before all that

	control, data *pgxpool.Pool // apart, so that deliveries hold up no lease
	info          schema.Info
	events        pgstore.Relation
	nc            *nats.Conn
	board         *condition.Board

	beater      *heartbeat.Beater
	keeper      *lease.Keeper
	leases      *lease.Store
	store       *pgstore.Store
	traces      *tracing.Observer // nil: none
	publisher   delivery.Publisher
	relay       *loop.Relay
	coordinator *coordinator.Coordinator
	sweeper     *pgstore.Sweeper
	logBell     *walbell.Listener // nil: none
	canary      *canary           // nil: none
	audit       *gaps.Auditor     // nil: none
	monitor     *ui.Server        // nil: none
}

// New connects to both servers and checks that they fit. It changes nothing, but makes the stream where Stream.Create is set. Run or Close
// closes the worker; after an error there is nothing to close.
func New(ctx context.Context, cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	w := &Worker{cfg: cfg, log: cfg.Logger, metrics: prometheus.NewRegistry(), over: make(chan struct{})}
	for _, step := range []func(context.Context) error{
		w.openBoard, w.openDatabase, w.openBroker, w.openMembership, w.openPublisher, w.openRelay, w.openCoordinator, w.openCanary, w.openAudit, w.openMonitor, w.showMetrics,
	} {
		if err := step(ctx); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Close ends a worker that is not run. Run does so by itself; closing twice does nothing.
func (w *Worker) Close() {
	w.closing.Do(func() {
		close(w.over)
		for _, end := range slices.Backward(w.opened) {
			end()
		}
	})
}

// ID names the worker among the others; each New makes another.
func (w *Worker) ID() partition.WorkerID { return w.beater.ID() }

// Stats returns the relay's counts since New.
func (w *Worker) Stats() loop.Stats { return w.relay.Stats() }

// State returns the coordinator's last reading and acts.
func (w *Worker) State() coordinator.State { return w.coordinator.State() }

// Ring wakes the workers for appended events, after their commit; without it they find them by their next poll. It never waits.
func (w *Worker) Ring(appended ...outbox.Appended) {
	_ = w.nc.Publish(outbox.BellSubject(w.cfg.Schema), outbox.BellBody(appended...))
}

// Monitor returns the monitor of Config.Monitor; nil: none. Another server may mount its Handler below any path, and should call the
// handler's CloseStreams when it shuts down (http.Server.RegisterOnShutdown).
func (w *Worker) Monitor() *ui.Server { return w.monitor }

// openBoard makes the board on which all parts of this worker report their faults.
func (w *Worker) openBoard(context.Context) error {
	w.board = condition.NewBoard(w.log, wire.Reason)
	return w.metrics.Register(w.board)
}

// showMetrics registers all metrics with the program, once all parts have theirs.
func (w *Worker) showMetrics(context.Context) error {
	if w.cfg.Registerer == nil {
		return nil
	}
	if err := w.cfg.Registerer.Register(w.metrics); err != nil {
		return refused("Registerer", fmt.Errorf("%w; each worker of a program needs its own, as prometheus.WrapRegistererWith makes them", err))
	}
	w.opened = append(w.opened, func() { w.cfg.Registerer.Unregister(w.metrics) })
	return nil
}

func (w *Worker) openDatabase(ctx context.Context) error {
	for _, one := range []struct {
		pool **pgxpool.Pool
		name string
		size int32
	}{{&w.control, "control", 2}, {&w.data, "delivery", 4}} {
		var err error
		if *one.pool, err = w.openPool(ctx, pg.Connections{Name: one.name, Most: one.size, Keep: true}); err != nil {
			return err
		}
	}
	m, err := schema.New(schema.Config{Schema: w.cfg.Schema, Partitions: w.cfg.Partitions, Stream: w.cfg.Stream.Name, Subject: w.cfg.Shape.Subject.String()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pg.ConnectTimeout)
	defer cancel()
	if w.info, err = m.Check(ctx, w.control); err != nil {
		return refused("Schema, Partitions, Stream, Shape (--schema, --partitions, --stream, --subject)", err, schema.ErrPartitionMismatch, schema.ErrStreamMismatch)
	}
	w.cfg.Stream.Name = cmp.Or(w.cfg.Stream.Name, w.info.Stream, streams.DefaultStream)
	if w.cfg.Shape.Subject, err = wire.ParseSubject(cmp.Or(w.cfg.Shape.Subject.String(), w.info.Subject, wire.DefaultSubject)); err != nil {
		return err
	}
	w.cfg.Stream.Subject = w.cfg.Shape.Subject
	if w.events, err = pgstore.ParseRelation(w.info.Events); err != nil {
		return err
	}
	return field("DatabaseURL (--database-url)", pgstore.CheckDatabase(ctx, w.control))
}

// openPool opens a pool that lives as long as the worker.
func (w *Worker) openPool(ctx context.Context, c pg.Connections) (*pgxpool.Pool, error) {
	pool, err := w.newPool(ctx, c)
	if err == nil {
		w.opened = append(w.opened, pool.Close)
	}
	return pool, err
}

func (w *Worker) newPool(ctx context.Context, c pg.Connections) (*pgxpool.Pool, error) {
	config, err := w.cfg.pools()
	if err != nil {
		return nil, err
	}
	// A session on a dead connection must lose its lock of a lease row in about the time of a lease.
	c.Name, c.DeadPeer = "postrider "+c.Name, w.cfg.Lease.TTL
	pool, err := c.Open(ctx, config)
	return pool, field("DatabaseURL (--database-url)", err)
}

// openMembership makes the worker's heartbeat and the keeper of its leases.
func (w *Worker) openMembership(ctx context.Context) error {
	workers, err := heartbeat.NewStore(w.control, w.cfg.Schema)
	if err != nil {
		return err
	}
	if w.leases, err = lease.NewStore(ctx, w.control, w.cfg.Schema); err != nil {
		return err
	}
	if w.store, err = pgstore.New(ctx, w.data, w.cfg.Schema, w.events); err != nil {
		return err
	}
	w.cfg.Heartbeat.Board, w.cfg.Heartbeat.Canary = w.board, func() string { return w.canary.trouble() }
	if w.beater, err = heartbeat.NewBeater(workers, w.cfg.Heartbeat); err != nil {
		return err
	}
	if w.keeper, err = lease.NewKeeper(w.leases, w.ID(), w.cfg.Lease); err != nil {
		return err
	}
	if err := w.registerProbes(); err != nil || w.cfg.TracerProvider == nil {
		return err
	}
	provider, err := w.cfg.TracerProvider(w.ID())
	if err != nil {
		return field("TracerProvider", err)
	}
	subject := w.cfg.Shape.Subject
	w.traces = tracing.New(tracing.Config{
		Provider: provider, Version: w.cfg.Heartbeat.Version, Stream: w.cfg.Stream.Name, Template: subject.String(), Subject: subject.Of,
	})
	return nil
}

// bell opens a doorbell of the schema: the one without an end rings for events, the one with it for the cluster.
func (w *Worker) bell(end string) (*wire.Bell, error) {
	bell, err := wire.NewBell(w.nc, outbox.BellSubject(w.cfg.Schema)+end)
	if err == nil {
		w.opened = append(w.opened, func() { _ = bell.Close() })
	}
	return bell, err
}

func (w *Worker) openRelay(ctx context.Context) error {
	c := &w.cfg.Delivery
	if err := pgstore.RequireOrder(ctx, w.data, w.cfg.Schema, w.events, c.Ordering); err != nil {
		return refused("Delivery.Ordering (--ordering)", err, pgstore.ErrStrict)
	}
	if c.MaxPayload == 0 { // the limit of appends; lowering that later counts for later events alone
		c.MaxPayload = max(delivery.DefaultMaxPayload, w.info.MaxPayloadBytes)
	}
	c.Board, c.Registerer = w.board, w.metrics
	if w.traces != nil {
		c.Observer = w.traces
	}
	bell, err := w.bell("")
	if err != nil {
		return err
	}
	if w.relay, err = loop.NewRelay(*c, w.store, w.publisher, bell); err != nil {
		return err
	}
	if !w.cfg.Once { // a single run needs no doorbell
		if w.logBell, err = walbell.New(walbell.Config{
			Schema: w.cfg.Schema, Ring: bell.RingFor, Registerer: w.metrics, Logger: w.log,
		}, w.control); err != nil {
			return err
		}
	}
	w.sweeper, err = pgstore.NewSweeper(w.store, w.data, *w.cfg.Retention)
	return err
}

func (w *Worker) openCoordinator(context.Context) error {
	c := &w.cfg.Coordinator
	c.Board, c.Registerer = w.board, w.metrics
	if w.traces != nil {
		c.Observer = w.traces.Coordinated
	}
	deliver := w.relay.Run
	if w.cfg.Once {
		deliver = func(ctx context.Context, held *lease.Set) error {
			select {
			case <-w.coordinator.Planned():
			case <-ctx.Done():
			}
			return w.relay.RunOnce(ctx, held)
		}
	}
	bell, err := w.bell(".cluster")
	if err != nil {
		return err
	}
	w.coordinator, err = coordinator.New(*c, w.beater, w.keeper, bell, deliver)
	return err
}
