package lease

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config has the times of leases.
type Config struct {
	// TTL is a lease's length without renewal, by the database's clock; at least 500 ms. Defaults to 10 s.
	TTL time.Duration
	// Margin ends the process's trust in a lease before its TTL; between TTL/20 and TTL/2. Defaults to TTL·3/10.
	Margin time.Duration
	// RenewEvery is the time between renewals; above 0 and at most (TTL − Margin)/2, so that one lost renewal costs nothing. Defaults to
	// TTL·3/10.
	RenewEvery time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.Margin = cmp.Or(c.Margin, c.TTL*3/10)
	c.RenewEvery = cmp.Or(c.RenewEvery, c.TTL*3/10)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("lease configuration")

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	switch {
	case c.TTL < 500*time.Millisecond:
		return fmt.Errorf("%w: TTL must be at least 500ms, got %s", ErrConfig, c.TTL)
	case c.Margin < c.TTL/20 || c.Margin > c.TTL/2:
		return fmt.Errorf("%w: Margin must lie between TTL/20 (%s) and TTL/2 (%s), got %s", ErrConfig, c.TTL/20, c.TTL/2, c.Margin)
	case c.RenewEvery <= 0 || c.RenewEvery > (c.TTL-c.Margin)/2:
		return fmt.Errorf("%w: RenewEvery must be above 0 and at most (TTL − Margin)/2 (%s), got %s", ErrConfig, (c.TTL-c.Margin)/2, c.RenewEvery)
	}
	return nil
}
