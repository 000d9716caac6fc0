package pairs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
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
					standby := s.copyServer(t)
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

// copyServer copies the server's files as a standby has them, and returns where they lie.
func (s *stage) copyServer(t *testing.T) string {
	t.Helper()
	s.exec(t, `CHECKPOINT`) // with all that was committed
	if err := s.server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby := filepath.Join(filepath.Dir(s.server.DataDir()), "standby")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", s.server.DataDir(), standby).CombinedOutput(); err != nil {
		t.Fatalf("copy the data directory: %v: %s", err, out)
	}
	s.restart(t)
	return standby
}

// promote puts the copy in the place of the server, and makes it a primary with a timeline of its own.
func (s *stage) promote(t *testing.T, standby string) {
	t.Helper()
	if err := s.server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.server.DataDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(standby, s.server.DataDir()); err != nil {
		t.Fatal(err)
	}
	signal := filepath.Join(s.server.DataDir(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o644); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	s.restart(t)
	s.exec(t, `SELECT pg_promote()`)
	// A server logs its sequences ahead, so a standby that lags behind goes on above events that it lacks.
	s.exec(t, `SELECT setval(pg_get_serial_sequence('events', 'sequence'), last_value + $1) FROM events_sequence_seq`, loggedAhead)
}

// loggedAhead is how many values of a sequence PostgreSQL logs at once.
const loggedAhead = 32

// restart starts the server again, under its old address.
func (s *stage) restart(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if err := s.server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	s.Pool.Reset()
}
