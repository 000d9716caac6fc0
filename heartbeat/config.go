package heartbeat

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/buildinfo"
)

// Config describes a worker and its beats.
type Config struct {
	// Hostname and PID tell people where the worker runs; they identify nothing. Default to the operating system's.
	Hostname string
	PID      int
	// Version of the program. Defaults to that of the build.
	Version string
	// Shape describes the form of the worker's messages, the same text for the
	// same form, for commands that make such messages. May be empty.
	Shape string
	// TTL is the validity of one beat, by the database's clock; at least 500 ms. Defaults to 10 s.
	TTL time.Duration
	// Interval between beats; at most TTL/2, so that one lost beat costs nothing. Defaults to TTL/3.
	Interval time.Duration
	// PurgeAfter keeps a stale row visible. Defaults to 10 min.
	PurgeAfter time.Duration
	// Board has the worker's conditions: each beat writes the first one. Failed beats are reported to it. Defaults to none.
	Board *condition.Board
	// Canary returns the canary's fault, "": none: each beat writes it. Defaults to none.
	Canary func() string
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.Version = cmp.Or(c.Version, buildinfo.Version())
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.Interval = cmp.Or(c.Interval, c.TTL/3)
	c.PurgeAfter = cmp.Or(c.PurgeAfter, 10*time.Minute)
	if c.Canary == nil {
		c.Canary = func() string { return "" }
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("heartbeat configuration")

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	switch {
	case c.TTL < 500*time.Millisecond:
		return fmt.Errorf("%w: TTL must be at least 500ms, got %s", ErrConfig, c.TTL)
	case c.Interval <= 0 || c.Interval > c.TTL/2:
		return fmt.Errorf("%w: Interval must be above 0 and at most TTL/2 (%s), got %s", ErrConfig, c.TTL/2, c.Interval)
	case c.PurgeAfter < 0:
		return fmt.Errorf("%w: PurgeAfter must not be negative, got %s", ErrConfig, c.PurgeAfter)
	}
	return nil
}
