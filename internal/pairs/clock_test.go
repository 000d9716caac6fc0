package pairs_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// stepBack is the step of the database's clock.
const stepBack = time.Minute

// stepsBack has the database's clock be behind while it lasts, and step forward again at its end.
func stepsBack(s *stage, _ int) act {
	move := func(t *testing.T, by time.Duration) {
		t.Helper()
		s.behind += by
		s.clock.Move(t, -s.behind)
	}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			if s.clock == nil {
				s.clock = pgtest.NewClock(t) // which skips, or fails
			}
			t.Cleanup(func() { s.clock.Move(t, 0) })
			move(t, stepBack)
		},
		end: func(t *testing.T) {
			t.Helper()
			move(t, -stepBack)
		},
		check: func(t *testing.T) {
			t.Helper()
			if n := s.Count(t, `SELECT count(*) FROM outbox_messages WHERE state = 'scheduled'`); n > 0 {
				t.Errorf("%d events are scheduled that nobody scheduled", n)
			}
		},
	}
}
