package pairs_test

import (
	"context"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

// failover loses the database with everything that it committed after an older copy was made, and promotes the copy:
// so many events are in the stream, and the database has never heard of them.
func failover(events int) func(*stage, int) act {
	return func(s *stage, n int) act {
		var alarms, known int
		return act{
			begin: func(t *testing.T) {
				t.Helper()
				s.quietly(t, func() {
					alarms = s.alarms(t)
					s.exec(t, `CHECKPOINT`) // with all that was committed
					standby := pgtest.NewStandby(t, s.server)
					s.Pool.Reset()
					known = s.forget(t, n, events)
					s.promote(t, standby)
				})
			},
			finish: func(t *testing.T) {
				t.Helper()
				if known == 0 || s.permits&(repeats|reports) != 0 && n == 1 {
					return // nobody can notice: they were never published, or the stream has lost them, too
				}
				clustertest.Until(t, "an alarm tells of the forgotten events", func(context.Context) (bool, error) {
					return s.alarms(t) > alarms, nil //nolint:contextcheck // of the test
				}, nil)
			},
			check: func(t *testing.T) {
				t.Helper()
				if known > 0 && s.Count(t, `SELECT generation FROM outbox_settings`) == 0 && s.alarms(t) > alarms {
					t.Error("events were forgotten, and the generation is that of before")
				}
			},
		}
	}
}

func (s *stage) alarms(t *testing.T) int {
	t.Helper()
	return s.Count(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`)
}

// forget commits events that will be forgotten, and returns how many of them are published.
func (s *stage) forget(t *testing.T, n, count int) (known int) {
	t.Helper()
	events := make([]outbox.Event, count)
	for i := range events {
		events[i] = event(s.stream("forgotten", n*10+i%10))
	}
	entries := s.append(t, events...)
	s.flow(t)
	for _, e := range entries {
		published := e.Sequence < s.held()
		s.forgotten[e.EventID] = published
		if published {
			known++
		}
	}
	return known
}

// promote puts the copy in the place of the server.
func (s *stage) promote(t *testing.T, standby pgtest.Standby) {
	t.Helper()
	standby.Promote(t)
	s.Pool.Reset()
	// A server logs its sequences ahead, so a standby that lags behind goes on above events that it lacks.
	s.exec(t, `SELECT setval(pg_get_serial_sequence('events', 'sequence'), last_value + $1) FROM events_sequence_seq`, loggedAhead)
}

// loggedAhead is how many values of a sequence PostgreSQL logs at once.
const loggedAhead = 32
