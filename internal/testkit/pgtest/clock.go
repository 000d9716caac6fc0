package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
)

// RequireClock set to 1 makes a missing libfaketime a failure, where tests move a server's clock.
const RequireClock = "POSTRIDER_REQUIRE_FAKETIME"

// Clock is the wall clock of a server of its own. Its monotonic clock goes on.
type Clock struct{ file string }

// Movable starts a server as Server does, with a wall clock that the test moves. It skips the test where libfaketime
// is missing, unless RequireClock is 1.
func Movable(t testing.TB, config localpg.Config) (*localpg.Server, *Clock) {
	t.Helper()
	clock := NewClock(t)
	config.Environment = append(config.Environment, clock.Environment()...)
	return Server(t, config), clock
}

// NewClock returns a clock that shows the time of this machine.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	if library() == "" {
		const missing = "libfaketime is missing, which moves a server's clock: apt-get install faketime"
		if os.Getenv(RequireClock) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	folder, err := os.MkdirTemp("", "postrider-clock-") //nolint:usetesting // the server is another user, who cannot enter the test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // the server is another user
		t.Fatal(err)
	}
	c := &Clock{filepath.Join(folder, "ahead")}
	c.Move(t, 0)
	return c
}

// HasClock reports whether this machine can move a server's clock.
func HasClock() bool { return library() != "" }

// library returns the path of libfaketime; empty: it is not installed.
func library() string {
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// Environment returns the variables of a program with this clock, as "NAME=value".
func (c *Clock) Environment() []string {
	return []string{
		"LD_PRELOAD=" + library(), "FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1",
	}
}

// Move lets the clock differ by that much from this machine's, at once.
func (c *Clock) Move(t testing.TB, ahead time.Duration) {
	t.Helper()
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", ahead.Seconds()), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		t.Fatal(err)
	}
}
