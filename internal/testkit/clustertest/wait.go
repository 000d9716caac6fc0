package clustertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// Patience bounds a wait that is not itself measured.
	Patience = time.Minute
	// lookInterval is the time between two polls of a condition that has no signal; it bounds the error of measurements.
	lookInterval = 5 * time.Millisecond
)

// Until polls the condition until it holds and returns the time. It fails the test when the condition cannot be read or does not hold within
// Patience; state, which may be nil, describes the situation then.
func Until(t testing.TB, what string, holds func(context.Context) (bool, error), state func() string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	start := time.Now()
	if err := until(ctx, holds); err != nil {
		text := ""
		if state != nil {
			text = "\n" + state()
		}
		t.Fatalf("wait until %s: %v%s", what, err, text)
	}
	return time.Since(start)
}

func until(ctx context.Context, holds func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if ok, err := holds(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not: %w", errors.Join(ctx.Err(), context.Cause(ctx)))
		case <-ticker.C:
		}
	}
}
