package walbell

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/partition"
)

// Config pairs an outbox with its ring.
type Config struct {
	// Schema of the outbox. Defaults to "public".
	Schema string
	// Ring wakes all workers for these partitions; none are all. It must not block. Required.
	Ring func(named ...partition.ID)
	// Interval is the time between two looks whether the slot is free, and between two confirmations by the worker that
	// holds it: 10 ms to 10 s. Defaults to 2 s.
	Interval time.Duration
	// Registerer takes the metric. Defaults to none.
	Registerer prometheus.Registerer
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.Schema = cmp.Or(c.Schema, "public")
	c.Interval = cmp.Or(c.Interval, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("configuration of the log's bell")

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	switch {
	case c.Ring == nil:
		return fmt.Errorf("%w: Ring is missing", ErrConfig)
	case c.Interval < 10*time.Millisecond || c.Interval > 10*time.Second:
		return fmt.Errorf("%w: Interval must lie between 10ms and 10s, got %s", ErrConfig, c.Interval)
	}
	return nil
}
