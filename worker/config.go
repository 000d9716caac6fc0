package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// Config holds a worker's settings. A field left zero has the default of `postrider run`.
type Config struct {
	// DatabaseURL is PostgreSQL's URL or DSN; pgx reads missing parts from the PG* variables. The role needs a relay's rights, with a
	// monitor an operator's, too.
	DatabaseURL string
	// Database replaces DatabaseURL where a URL is not enough, such as for changing passwords (BeforeConnect). The worker decides the
	// number of connections: 6, 1 for Audit, up to 2 while somebody uses its monitor, and up to 4 while that changes the number of
	// partitions.
	Database *pgxpool.Config
	// Schema of the outbox's tables. Defaults to "public".
	Schema string
	// Partitions that the outbox must have, 1 to 32767. Defaults to whatever it has.
	Partitions int
	// NATSURL is the servers' URLs, separated by commas. Defaults to nats.DefaultURL.
	NATSURL string
	// NATSOptions hold further options, such as the login. The worker decides on reconnects, and handles the connection's errors. A domain
	// of JetStream belongs into Stream.APIPrefix.
	NATSOptions []nats.Option
	// Stream is checked, and made when it is missing and Create is set. Its Subject is Shape's, its Control the outbox's. Its Name
	// defaults to the outbox's stored one, or streams.DefaultStream; New refuses another than the stored one.
	Stream streams.StreamConfig
	// Shape makes messages of events. Its Subject defaults to the stored one, or wire.DefaultSubject. Where Heartbeat.Shape
	// describes it, replays that would make other messages are refused.
	Shape wire.Shape
	// AckTimeout bounds the broker's silence while acknowledgements are awaited; at least 10 ms. Defaults to 5 s.
	AckTimeout time.Duration
	Lease      lease.Config
	// Heartbeat's TTL defaults to Lease.TTL, Coordinator's Interval to a quarter of it, but 1 s at most.
	Heartbeat   heartbeat.Config
	Coordinator coordinator.Config
	Delivery    loop.Config
	// Retention defaults to 7 days of history.
	Retention *pgstore.RetentionConfig
	// Canary is the interval at which one worker of the cluster appends an event of CanaryTopic and reads it back from the stream; 1 s to
	// 24 h. Metrics and status show the result. The role needs EXECUTE on outbox_append_batch. Defaults to 0: never.
	Canary time.Duration
	// Audit is the time within which one worker of the cluster finds losses in the stream's middle; 10 s to 720 h. Delivery.Lost decides
	// on the reaction. Defaults to 0: never.
	Audit time.Duration
	// Alone makes the worker deliver all partitions without coordination; Run fails beside other workers.
	Alone bool
	// Once ends Run when every event that can be delivered now was.
	Once bool
	// Monitor configures the worker's monitor. Where Addr is not empty New listens there and Run serves. The worker sets Source, Operator,
	// Ready, Version, Logger, and a missing Gatherer. Defaults to none.
	Monitor *ui.ServerConfig
	// TracerProvider returns the provider of a worker's spans, by its id; the caller shuts it down. Defaults to none.
	TracerProvider func(id partition.WorkerID) (trace.TracerProvider, error)
	// Registerer has the metrics until Run ends; no other worker may share it. Defaults to none; the monitor has them in any case.
	Registerer prometheus.Registerer
	// Logger serves each part whose own Config names none. Defaults to slog.Default.
	Logger *slog.Logger
}

// ErrConfig is wrapped by errors about values with which starting again is of no use.
var ErrConfig = errors.New("worker configuration")

// field wraps an error with the names of its field and of the flag of `postrider run`.
func field(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// refused is field for an error that wraps one of the causes, or any where none are given, as ErrConfig.
func refused(name string, err error, causes ...error) error {
	if err = field(name, err); err == nil || len(causes) > 0 && !slices.ContainsFunc(causes, func(c error) bool { return errors.Is(err, c) }) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrConfig, err)
}

// WithDefaults fills the fields that were left zero, except for settings stored with the outbox.
func (c Config) WithDefaults() Config {
	c.Schema, c.NATSURL = cmp.Or(c.Schema, "public"), cmp.Or(c.NATSURL, nats.DefaultURL)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	retention := pgstore.RetentionConfig{History: 7 * 24 * time.Hour}
	if c.Retention != nil {
		retention = *c.Retention
	}
	c.Retention = &retention
	for _, log := range []**slog.Logger{
		&c.Stream.Logger, &c.Lease.Logger, &c.Heartbeat.Logger, &c.Coordinator.Logger, &c.Delivery.Logger, &c.Retention.Logger,
	} {
		*log = cmp.Or(*log, c.Logger)
	}
	c.Lease = c.Lease.WithDefaults()
	// As long as a lease: a dead worker's partitions are planned anew when its leases run out.
	c.Heartbeat.TTL = cmp.Or(c.Heartbeat.TTL, c.Lease.TTL)
	c.Heartbeat = c.Heartbeat.WithDefaults()
	c.Coordinator.Interval = cmp.Or(c.Coordinator.Interval, min(time.Second, c.Lease.TTL/4))
	c.Coordinator = c.Coordinator.WithDefaults()
	return c
}

// Validate refuses, by name, values outside their ranges.
func (c Config) Validate() error {
	c = c.WithDefaults()
	_, database := c.pools()
	var canary, audit, monitor error
	if c.Canary != 0 && (c.Canary < time.Second || c.Canary > 24*time.Hour) {
		canary = fmt.Errorf("must lie between 1s and 24h, or be 0, got %s", c.Canary)
	}
	if c.Audit != 0 && (c.Audit < 10*time.Second || c.Audit > 720*time.Hour) {
		audit = fmt.Errorf("must lie between 10s and 720h, or be 0, got %s", c.Audit)
	}
	if c.Monitor != nil {
		config := *c.Monitor
		config.Options.Source = struct{ ui.Source }{} // the source does not exist yet
		monitor = config.Validate()
	}
	work := c.Delivery.WithDefaults()
	for _, f := range []struct {
		name string
		err  error
	}{
		{"DatabaseURL (--database-url)", database},
		{"Schema, Partitions (--schema, --partitions)", schema.Config{Schema: c.Schema, Partitions: c.Partitions}.Validate()},
		{"Shape (--headers, --compress)", c.Shape.Validate()},
		{"Lease (--lease-ttl)", c.Lease.Validate()},
		{"Heartbeat (--lease-ttl)", c.Heartbeat.Validate()},
		{"Coordinator (--assignment, --drain-timeout)", c.Coordinator.Validate()},
		{"Delivery.Retry (--max-attempts, --retry-base, --retry-max)", work.Retry.Validate()},
		{"Delivery (--batch-size, --in-flight, --interval)", work.Validate()},
		{"Retention (--retention)", c.Retention.Validate()},
		{"Canary (--canary)", canary},
		{"Audit (--audit)", audit},
		{"Monitor (--http-addr)", monitor},
	} {
		if f.err != nil {
			return refused(f.name, f.err)
		}
	}
	return nil
}

// pools returns the configuration that all pools share.
func (c Config) pools() (*pgxpool.Config, error) {
	if c.Database != nil {
		return c.Database, nil
	}
	return pg.ParseConfig(c.DatabaseURL)
}
