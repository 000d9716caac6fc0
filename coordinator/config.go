package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/partition"
)

// Config has the settings of a coordinator.
type Config struct {
	// Strategy shares the partitions. Defaults to partition.Modulo.
	Strategy partition.Strategy
	// Interval is the longest time between two reconciliations; at least 50 ms. Defaults to 1 s.
	Interval time.Duration
	// Quiet is the least time between two reconciliations, so that many doorbells cost one. Defaults to 20 ms.
	Quiet time.Duration
	// DrainTimeout bounds the delay of a release by work in flight. Defaults to 5 s.
	DrainTimeout time.Duration
	// Board gets the errors that keep the coordinator from its leases, and nil when it goes on. Defaults to none.
	Board *condition.Board
	// Observer is called after each step that moved leases, StepAcquire or StepHandOver, with the number of partitions. It must not block.
	// Defaults to nobody.
	Observer func(step string, began time.Time, partitions int, err error)
	// Registerer receives the metrics. Defaults to none.
	Registerer prometheus.Registerer
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// The steps that an Observer sees.
const (
	StepAcquire  = "acquire"
	StepHandOver = "hand over"
)

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.Strategy = cmp.Or(c.Strategy, partition.Modulo)
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Quiet = cmp.Or(c.Quiet, 20*time.Millisecond)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("coordinator configuration")

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	if _, err := partition.ParseStrategy(string(c.Strategy)); err != nil {
		return fmt.Errorf("%w: Strategy: %w", ErrConfig, err)
	}
	switch {
	case c.Interval < 50*time.Millisecond:
		return fmt.Errorf("%w: Interval must be at least 50ms, got %s", ErrConfig, c.Interval)
	case c.Quiet < 0 || c.Quiet > c.Interval:
		return fmt.Errorf("%w: Quiet must lie between 0 and Interval (%s), got %s", ErrConfig, c.Interval, c.Quiet)
	case c.DrainTimeout <= 0:
		return fmt.Errorf("%w: DrainTimeout must be above 0, got %s", ErrConfig, c.DrainTimeout)
	}
	return nil
}
