package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Wrong settings are refused by name with status 2, before anything is touched; help shows no passwords.
func TestSettingsAreRefusedByName(t *testing.T) {
	database := pgtest.URL(t)
	t.Setenv("DATABASE_URL", database)
	t.Setenv("NATS_URL", "")
	for _, c := range []struct {
		line, names string
		status      int
	}{
		{"sideways", "sideways", 2},
		{"run --mode sideways", "--mode", 2},
		{"run --workers 0", "--workers", 2},
		{"run --workers 257", "--workers", 2},
		{"run --mode shadow --workers 0", "--workers", 2},
		{"run --mode inline", "--mode inline", 2},
		{"run --mode inline --workers 2", "--workers", 2},
		{"run --batch -1", "--batch", 2},
		{"run --lease-ttl 1ns", "--lease-ttl", 2},
		{"run --backoff 1ns", "--backoff", 2},
		{"run --schema public", "--schema", 2},
		{"run --schema a.b", "--schema", 2},
		{"run --journal-schema a.b", "--journal-schema", 2},
		{"run --backoff 1h --backoff-max 1s", "--backoff-max", 2},
		{"run --nats-url nats://user:secret%zz@host", "--nats-url: cannot be read", 2},
		{"run --database-url nonsense:// --until-current", "--database-url", 2},
		{"run extra", "argument", 2},
		{"list --state asleep", "--state", 2},
		{"list --limit 0", "--limit", 2},
		{"list --limit x", "limit", 2},
		{"gaps detect --grace -1s", "--grace", 2},
		{"gaps", "gaps", 2},
		{"requeue", "argument", 2},
		{"summary", "no projection in schema files", 1},
		{"summary --mode shadow", "no projection in schema files_shadow", 1},
		{"run --help", "-workers", 0},
		{"help", "projection gaps repair", 0},
	} {
		var out bytes.Buffer
		status := run(t.Context(), strings.Fields(c.line), &out, &out)
		if status != c.status || !strings.Contains(out.String(), c.names) {
			t.Errorf("%s: status %d, want %d, and %q in\n%s", c.line, status, c.status, c.names, &out)
		}
		if strings.Contains(out.String(), database) || strings.Contains(out.String(), "secret") {
			t.Errorf("%s shows the database's address", c.line)
		}
	}
	t.Setenv("PROJECTION_WORKERS", "many")
	var out bytes.Buffer
	if status := run(t.Context(), []string{"run"}, &out, &out); status != 2 || !strings.Contains(out.String(), "PROJECTION_WORKERS") {
		t.Errorf("status %d\n%s", status, &out)
	}
}
