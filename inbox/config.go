package inbox

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message/codec"
)

// Order decides whether a message is too late.
type Order int

const (
	// OrderVersions refuses a message whose version is not above the last of its stream. For workers that run with
	// --behind stream, the default.
	OrderVersions Order = iota
	// OrderIDs lets a late message run when its version is not recorded: for --behind retries and none. Records past the retention are gone:
	// such a message would run again.
	OrderIDs
)

// JitterKind spreads delays.
type JitterKind string

// The kinds of jitter.
const (
	JitterEqual JitterKind = "equal" // between half of the delay and the whole
	JitterNone  JitterKind = "none"
)

// Config has the settings of an Inbox.
type Config struct {
	// Name is the consumer's name: its records are kept under it. 1 to 128 bytes. Needed.
	Name string
	// Schema holds the inbox tables. Defaults to "public".
	Schema string
	// Order defaults to OrderVersions.
	Order Order
	// BackoffBase, BackoffFactor and BackoffMax: the delay after failure n is min(base·factor^(n-1), max). Default to
	// 1 s, 2 and 5 min. The factor is 1 to 100.
	BackoffBase   time.Duration
	BackoffFactor float64
	BackoffMax    time.Duration
	// Jitter defaults to JitterEqual.
	Jitter JitterKind
	// MaxAttempts failures of a handler make its message dead. Defaults to 8; NoLimit: never dead.
	MaxAttempts int
	// MaxPayload is the longest decompressed body, in bytes; a longer one is dead. 1 to 64 MiB. Defaults to 8 MiB: raise it together with the
	// outbox's max_payload_bytes.
	MaxPayload int
	// HandlerTimeout bounds one call of the handler: its context ends then, and so does its session in the database.
	// 100 ms to 24 days; defaults to 30 s.
	HandlerTimeout time.Duration
	// Retention keeps results of messages. Order does not need them. At least 1 min; defaults to 7 days.
	Retention time.Duration
	// Seed makes the jitter repeatable; 0 takes a random one.
	Seed uint64
	// Logger defaults to discarding.
	Logger *slog.Logger
	// Registerer exposes the metrics. Defaults to not exposing them.
	Registerer prometheus.Registerer
}

// NoLimit as MaxAttempts: a message is tried for ever.
const NoLimit = -1

const maxName = 128

// longestHandler is about the longest idle limit of a PostgreSQL session.
const longestHandler = 24 * 24 * time.Hour

// Validate refuses a wrong value with ErrConfig and names its field.
func (c Config) Validate() error {
	switch {
	case c.Name == "" || len(c.Name) > maxName || text(c.Name) != c.Name:
		return fmt.Errorf("%w: Name must have 1 to %d bytes of text without NUL, got %q", ErrConfig, maxName, c.Name)
	case c.Order != OrderVersions && c.Order != OrderIDs:
		return fmt.Errorf("%w: Order must be OrderVersions or OrderIDs, got %d", ErrConfig, c.Order)
	case c.BackoffBase < 0 || c.BackoffMax < 0:
		return fmt.Errorf("%w: BackoffBase and BackoffMax must not be negative", ErrConfig)
	case c.BackoffFactor != 0 && (c.BackoffFactor < 1 || c.BackoffFactor > 100):
		return fmt.Errorf("%w: BackoffFactor must be 1 to 100, got %g", ErrConfig, c.BackoffFactor)
	case c.withDefaults().BackoffMax < c.withDefaults().BackoffBase:
		return fmt.Errorf("%w: BackoffMax must not be below BackoffBase", ErrConfig)
	case c.Jitter != "" && c.Jitter != JitterEqual && c.Jitter != JitterNone:
		return fmt.Errorf("%w: Jitter must be %q or %q, got %q", ErrConfig, JitterEqual, JitterNone, c.Jitter)
	case c.MaxAttempts < NoLimit:
		return fmt.Errorf("%w: MaxAttempts must be at least 1, 0 for the default or NoLimit, got %d", ErrConfig, c.MaxAttempts)
	case c.MaxPayload < 0 || c.MaxPayload > codec.MaxLimit:
		return fmt.Errorf("%w: MaxPayload must be 1 to %d bytes, got %d", ErrConfig, codec.MaxLimit, c.MaxPayload)
	case c.HandlerTimeout != 0 && (c.HandlerTimeout < 100*time.Millisecond || c.HandlerTimeout > longestHandler):
		return fmt.Errorf("%w: HandlerTimeout must be 100ms to %s, got %s", ErrConfig, longestHandler, c.HandlerTimeout)
	case c.Retention != 0 && c.Retention < time.Minute:
		return fmt.Errorf("%w: Retention must be at least 1m, got %s", ErrConfig, c.Retention)
	}
	if c.Schema != "" {
		if err := pg.CheckSchema(c.Schema); err != nil {
			return fmt.Errorf("%w: Schema: %w", ErrConfig, err)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, DefaultSchema)
	c.BackoffBase = cmp.Or(c.BackoffBase, time.Second)
	c.BackoffFactor = cmp.Or(c.BackoffFactor, 2)
	c.BackoffMax = cmp.Or(c.BackoffMax, 5*time.Minute)
	c.Jitter = cmp.Or(c.Jitter, JitterEqual)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 8)
	c.MaxPayload = cmp.Or(c.MaxPayload, codec.DefaultLimit)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 30*time.Second)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	c.Seed = cmp.Or(c.Seed, rand.Uint64())
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
