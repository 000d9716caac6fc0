package partition

import (
	"errors"
	"fmt"
)

// ErrStrategy is returned for a strategy name that does not exist.
var ErrStrategy = errors.New(`assignment strategy must be "modulo" or "sticky"`)

// Strategy names a way to share partitions among workers.
type Strategy string

// The strategies.
const (
	// Modulo gives partition p to the worker at position p mod n.
	Modulo Strategy = "modulo"
	// Sticky balances to ±1 and moves the fewest partitions.
	Sticky Strategy = "sticky"
)

// ParseStrategy returns the strategy of that exact name, or ErrStrategy.
func ParseStrategy(name string) (Strategy, error) {
	switch s := Strategy(name); s {
	case Modulo, Sticky:
		return s, nil
	default:
		return "", fmt.Errorf("%w: got %q", ErrStrategy, name)
	}
}
