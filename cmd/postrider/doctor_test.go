package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// diagnose runs doctor and returns its findings by the name of the check.
func diagnose(t *testing.T, wantCode int, args ...string) map[string]finding {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"doctor", "--json"}, args...)...)
	if code != wantCode {
		t.Errorf("status %d, want %d: %s%s", code, wantCode, stdout, stderr)
	}
	var list []finding
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	found := map[string]finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found
}

func TestDoctorChecksThePreconditionsOfStrictOrder(t *testing.T) {
	t.Parallel()
	database, broker := pgtest.Migrated(t, 8), natstest.Start(t, 1)
	broker.Stream(t, 1)
	on := []string{"--database-url=" + database, "--nats-url=" + broker.URL()}

	found := diagnose(t, exitOK, on...)
	if f := found["strict order"]; f.Level != levelOK {
		t.Errorf("in a fresh outbox: %+v", found)
	}
	if f := found["strict order: idle"]; f.Level != levelWarning || !strings.Contains(f.Detail, "ALTER DATABASE") {
		t.Errorf("of producers that may idle for ever: %+v", f)
	}

	pool := pgtest.Pool(t, database)
	if _, err := pool.Exec(t.Context(), `ALTER SEQUENCE events_sequence_seq CACHE 10`); err != nil {
		t.Fatal(err)
	}
	found = diagnose(t, exitFailed, on...)
	f := found["strict order: sequence"]
	for _, text := range []string{"cache 10", "ALTER SEQUENCE public.events_sequence_seq CACHE 1", "--ordering stream"} {
		if f.Level != levelError || !strings.Contains(f.Detail, text) {
			t.Errorf("it does not say %q: %+v", text, f)
		}
	}
	if f, told := found["strict order"]; told {
		t.Errorf("of a violated order: %+v", f)
	}
	for check := range diagnose(t, exitOK, append(on, "--ordering=stream")...) {
		if strings.HasPrefix(check, "strict order") {
			t.Errorf("%s is checked for ordering stream", check)
		}
	}
}
