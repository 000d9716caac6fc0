package projection

import (
	"testing"
	"time"
)

// The waits are those of the ancestor.
func TestBackoffDoublesUpToFiveMinutes(t *testing.T) {
	t.Parallel()
	c := Config{}.WithDefaults()
	for n, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 8: 128 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute,
		1000: 5 * time.Minute,
	} {
		if got := c.backoff(n); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
	if c.MaxAttempts != 8 {
		t.Errorf("dead after %d", c.MaxAttempts)
	}
}
