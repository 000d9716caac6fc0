package schema_test

import (
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
