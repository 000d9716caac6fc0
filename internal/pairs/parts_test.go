package pairs_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// inParts puts the events into parts and begins one under load; another begins when both operations have ended. Where the other
// one keeps a transaction open that has appended, the first waits for that.
func inParts(s *stage, _ int) act {
	try := func(t *testing.T, args ...string) {
		t.Helper()
		p := clustertest.Launch(t, "events", s.Environment(), append([]string{"events"}, append(args, "--timeout=1s")...)...)
		if p.Exit(t) != 0 && !strings.Contains(p.Stderr(), "held now by") && !strings.Contains(p.Stderr(), "events split") {
			t.Fatalf("events %v: %s", args, p.Stderr())
		}
	}
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			try(t, "split", "--yes", "--reason=a pair")
			try(t, "begin")
		},
		finish: func(t *testing.T) {
			t.Helper()
			s.operate(t, "events", "split", "--yes", "--reason=a pair") // again where the database has forgotten it
			s.operate(t, "events", "begin")
		},
		check: func(t *testing.T) {
			t.Helper()
			if n := s.Count(t, `SELECT count(DISTINCT sequence / 1000000000000) FROM events`); n < 2 && len(s.forgotten) == 0 {
				t.Errorf("the events lie in %d parts", n)
			}
		},
	}
}
