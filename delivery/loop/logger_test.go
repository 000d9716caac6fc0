package loop_test

import (
	"log/slog"
	"testing"
)

// testLogger writes to the test's own output.
func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
