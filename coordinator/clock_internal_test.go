package coordinator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A step of the database's clock is named however slow one of its answers is, and a slow answer, a clock that is slewed, or
// one that goes a little faster is none.
func TestStepsOfTheDatabasesClock(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for name, test := range map[string]struct {
		ahead func(look int) time.Duration // of the database's clock
		took  func(look int) time.Duration
		want  string // the sum of what is named
		steps int64
	}{
		"steady":       {func(int) time.Duration { return time.Hour }, quick, "", 0},
		"slow answers": {func(int) time.Duration { return 0 }, func(look int) time.Duration { return time.Duration(look%7) * 300 * time.Millisecond }, "", 0},
		"slewed":       {func(look int) time.Duration { return time.Duration(look) * 500 * time.Microsecond }, quick, "", 0},
		"20ms back":    {back(20 * time.Millisecond), quick, "by=-20ms", 1},
		"300ms back":   {back(300 * time.Millisecond), quick, "by=-300ms", 1},
		"an hour on":   {back(-time.Hour), quick, "by=1h0m0s", 1},
		"300ms back behind slow answers": {back(300 * time.Millisecond), func(look int) time.Duration {
			if look < 3 || look > 12 {
				return time.Millisecond
			}
			return 400 * time.Millisecond
		}, "by=-29", 1},
		"there and back in one interval": {func(look int) time.Duration {
			if look == 10 {
				return -time.Minute
			}
			return 0
		}, quick, "by=-1m0s", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			var c clock
			for look := range 30 {
				asked := start.Add(time.Duration(look) * time.Second)
				took := test.took(look)
				c.look(slog.New(slog.NewTextHandler(&log, nil)), asked, asked.Add(took), asked.Add(took*3/4).Add(test.ahead(look)).Round(0))
			}
			got := log.String()
			if test.want == "" && strings.Contains(got, "stepped") || !strings.Contains(got, test.want) || c.steps.Load() != test.steps {
				t.Errorf("%d steps, want %d and %q:\n%s", c.steps.Load(), test.steps, test.want, got)
			}
		})
	}
}

func quick(int) time.Duration { return time.Millisecond }

func back(by time.Duration) func(int) time.Duration {
	return func(look int) time.Duration {
		if look < 10 {
			return 0
		}
		return -by
	}
}
