package pgtest_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The clock of a movable server goes where the test moves it, also in sessions that are open, and back.
func TestAMovableClockMoves(t *testing.T) {
	t.Parallel()
	server, clock := pgtest.Movable(t, localpg.Config{})
	pool := pgtest.Pool(t, server.URL())
	for _, ahead := range []time.Duration{0, -time.Hour, -300 * time.Millisecond, -20 * time.Millisecond, time.Hour, 0} {
		clock.Move(t, ahead)
		before := time.Now()
		var at time.Time
		if err := pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		took := time.Since(before)
		if off := at.Sub(before) - ahead; off < -5*time.Millisecond || off > took+5*time.Millisecond {
			t.Errorf("moved by %v: the clock is %v off after %v", ahead, off, took)
		}
	}
}
