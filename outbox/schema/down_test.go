package schema_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

func TestDownRefusesUnpublished(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn := connect(t, url)
	run(t, conn, `SELECT outbox_append('s', 't', '{}')`)
	if err := migrator(t, schema.Config{DatabaseURL: url}).Down(t.Context()); !errors.Is(err, schema.ErrUnpublished) {
		t.Fatalf("Down: %v", err)
	}
	if n := one[int](t, conn, `SELECT count(*) FROM events`); n != 1 {
		t.Error("the refused Down removed the event")
	}
	for _, user := range []string{`VIEW theirs AS SELECT stream_id FROM events`, `VIEW theirs AS SELECT state FROM outbox_messages`, `TABLE theirs (of bigint REFERENCES events)`} {
		run(t, conn, `CREATE `+user)
		err := migrator(t, schema.Config{DatabaseURL: url, Force: true}).Down(t.Context())
		if !errors.Is(err, schema.ErrInUse) || !strings.Contains(err.Error(), "theirs") {
			t.Errorf("Down beside %s: %v", user, err)
		}
		run(t, conn, `SELECT outbox_append('s', 't', '{}')`)
		run(t, conn, `DROP `+strings.Join(strings.Fields(user)[:2], " "))
	}
	if err := migrator(t, schema.Config{DatabaseURL: url, Force: true}).Down(t.Context()); err != nil {
		t.Fatalf("forced Down: %v", err)
	}
}

// An administrator's setting that ends a migration is named, with what to do.
func TestASettingThatEndsAMigrationIsNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	holder, m := connect(t, url), migrator(t, schema.Config{DatabaseURL: url})
	for _, c := range []struct {
		name, held, setting, value string
		do                         func(context.Context) error
	}{
		{"Up", "outbox_settings", "lock_timeout", "100ms", m.Up},
		{"Down", "outbox", "lock_timeout", "100ms", m.Down},
		{"Down, in a migration", "events IN ACCESS SHARE MODE", "lock_timeout", "100ms", m.Down},
		{"Up of another schema", "events", "default_transaction_read_only", "on", migrator(t, schema.Config{DatabaseURL: url, Schema: "other"}).Up},
	} {
		run(t, holder, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+c.setting+` = %L', current_database(), '`+c.value+`'); END $$`)
		run(t, holder, `BEGIN`)
		run(t, holder, `LOCK TABLE `+c.held)
		if err := c.do(t.Context()); err == nil || !strings.Contains(err.Error(), c.setting) {
			t.Errorf("%s ends with %v", c.name, err)
		}
		run(t, holder, `ROLLBACK`)
	}
}
