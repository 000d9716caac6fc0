package projection

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/pg"
)

// Mode decides who applies events.
type Mode string

const (
	// Inline makes the producer apply in its own transaction, by ApplyTx. There are no workers.
	Inline Mode = "inline"
	// Outbox makes workers apply, by Run. ApplyTx is refused.
	Outbox Mode = "outbox"
	// Shadow makes workers do all that Outbox does in a schema of its own, next to a live projection, and count no attempts. ApplyTx is
	// refused.
	Shadow Mode = "shadow"
)

// Config has the settings of a Projection.
type Config struct {
	// Projector is the user's. Required.
	Projector Projector
	// Pool is the database of the projection. Required. Workers use one connection each, and two more.
	Pool *pgxpool.Pool
	// Journal is the database of the events, where it is another one. Defaults to Pool.
	Journal *pgxpool.Pool
	// JournalSchema holds the table events. Defaults to "public".
	JournalSchema string
	// Schema belongs to this projection alone and names it, in metrics and for the durable consumer. Defaults to "projection".
	Schema string
	// ShadowSchema is the schema of mode shadow. Defaults to Schema with _shadow behind it.
	ShadowSchema string
	// Mode. Required.
	Mode Mode
	// Workers apply streams at the same time: 1 to 256 in modes outbox and shadow, 0 in mode inline. No default.
	Workers int
	// JetStream brings the messages that name streams with news. Without it the sweep alone finds them. Not in mode inline.
	JetStream jetstream.JetStream
	// Stream is the name of the JetStream stream. Defaults to "EVENTS".
	Stream string
	// Filter selects the subjects. Defaults to "events.>".
	Filter string
	// BatchEvents is the most events of a stream in one transaction: 1 to 10,000. Defaults to 100.
	BatchEvents int
	// MaxAttempts failures make an event dead: 1 to 1000. Defaults to 8.
	MaxAttempts int
	// BackoffBase is the wait after the first failure; each further one doubles it. From 1 ms. Defaults to 1 s.
	BackoffBase time.Duration
	// BackoffMax bounds the wait; at least BackoffBase. Defaults to 5 min.
	BackoffMax time.Duration
	// LeaseTTL bounds one batch, and the wait of a stream whose owner died: 100 ms to 1 h. Defaults to 30 s.
	LeaseTTL time.Duration
	// PollInterval is the time between two polls of the workers without a wake-up: 1 ms to 1 min. Defaults to 250 ms.
	PollInterval time.Duration
	// SweepInterval is the time between two looks at all streams of the journal: 10 ms to 24 h. Defaults to 1 min.
	SweepInterval time.Duration
	// FromKept makes streams whose first events were dropped (`events prune`) begin at the first one kept; those dropped whole have nothing.
	// Without it a start is refused with ErrDropped where a stream without an applied event has lost its beginning. It needs SELECT on
	// outbox_stream_heads.
	FromKept bool
	// NoRepair leaves gaps that are found at start to people; streams that are merely behind are applied all the same.
	NoRepair bool
	// Registerer takes the metrics. Optional.
	Registerer prometheus.Registerer
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.JournalSchema = cmp.Or(c.JournalSchema, "public")
	c.Schema = cmp.Or(c.Schema, "projection")
	c.ShadowSchema = cmp.Or(c.ShadowSchema, c.Schema+"_shadow")
	c.Stream = cmp.Or(c.Stream, "EVENTS")
	c.Filter = cmp.Or(c.Filter, "events.>")
	c.BatchEvents = cmp.Or(c.BatchEvents, 100)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 8)
	c.BackoffBase = cmp.Or(c.BackoffBase, time.Second)
	c.BackoffMax = cmp.Or(c.BackoffMax, 5*time.Minute)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 30*time.Second)
	c.PollInterval = cmp.Or(c.PollInterval, 250*time.Millisecond)
	c.SweepInterval = cmp.Or(c.SweepInterval, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate refuses wrong values and combinations with ErrConfig, by name.
func (c Config) Validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case c.Projector == nil:
		return refuse("Projector is required")
	case c.Pool == nil:
		return refuse("Pool is required")
	}
	if err := c.validateMode(refuse); err != nil {
		return err
	}
	for field, schema := range map[string]string{"JournalSchema": c.JournalSchema, "Schema": c.Schema, "ShadowSchema": c.ShadowSchema} {
		if err := pg.CheckSchema(schema); err != nil {
			return refuse("%s: %w", field, err)
		}
	}
	switch {
	case c.ShadowSchema == c.Schema:
		return refuse("ShadowSchema must differ from Schema: a shadow never touches the live tables")
	case (c.Journal == nil || c.Journal == c.Pool) && (c.Schema == c.JournalSchema || c.ShadowSchema == c.JournalSchema):
		return refuse("Schema must differ from JournalSchema: it belongs to the projection alone")
	case c.BatchEvents < 1 || c.BatchEvents > 10_000:
		return refuse("BatchEvents must lie between 1 and 10000, got %d", c.BatchEvents)
	case c.MaxAttempts < 1 || c.MaxAttempts > 1000:
		return refuse("MaxAttempts must lie between 1 and 1000, got %d", c.MaxAttempts)
	case c.BackoffBase < time.Millisecond:
		return refuse("BackoffBase must be at least 1ms, got %s", c.BackoffBase)
	case c.BackoffMax < c.BackoffBase:
		return refuse("BackoffMax must be at least BackoffBase (%s), got %s", c.BackoffBase, c.BackoffMax)
	case c.LeaseTTL < 100*time.Millisecond || c.LeaseTTL > time.Hour:
		return refuse("LeaseTTL must lie between 100ms and 1h, got %s", c.LeaseTTL)
	case c.PollInterval < time.Millisecond || c.PollInterval > time.Minute:
		return refuse("PollInterval must lie between 1ms and 1m, got %s", c.PollInterval)
	case c.SweepInterval < 10*time.Millisecond || c.SweepInterval > 24*time.Hour:
		return refuse("SweepInterval must lie between 10ms and 24h, got %s", c.SweepInterval)
	}
	return c.validateTables(refuse)
}

type refusal func(format string, args ...any) error

func (c Config) validateMode(refuse refusal) error {
	switch c.Mode {
	case Inline:
		switch {
		case c.Workers != 0:
			return refuse("Mode inline has no workers: Workers must be 0, got %d (mode outbox has)", c.Workers)
		case c.JetStream != nil:
			return refuse("Mode inline listens to nothing: JetStream must be nil (mode outbox listens)")
		case c.Journal != nil && c.Journal != c.Pool:
			return refuse("Mode inline needs events and projection in one database: Journal must be nil")
		}
	case Outbox, Shadow:
		if c.Workers < 1 || c.Workers > 256 {
			return refuse("Mode %s needs workers, or nothing would ever be applied: Workers must lie between 1 and 256, got %d", c.Mode, c.Workers)
		}
		if c.Pool.Config().MaxConns < 3 {
			return refuse("Pool must allow at least 3 connections, got %d", c.Pool.Config().MaxConns)
		}
	default:
		return refuse("Mode must be %s, %s or %s, got %q", Inline, Outbox, Shadow, c.Mode)
	}
	return nil
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func (c Config) validateTables(refuse refusal) error {
	tables := c.Projector.Tables()
	if len(tables) == 0 {
		return refuse("Projector has no tables")
	}
	seen := map[string]bool{"projection_streams": true}
	for _, t := range tables {
		if !tableName.MatchString(t.Name) || !tableName.MatchString(t.Stream) {
			return refuse("Projector: table %q with stream column %q: both must match %s", t.Name, t.Stream, tableName)
		}
		if seen[t.Name] {
			return refuse("Projector: table %q is listed twice or is the projection's own", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}
