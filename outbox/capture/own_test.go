package capture_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/outbox/capture"
)

// What outbox and inbox write to themselves is refused, of all that their migrations make and no more.
func TestOwnTablesAreNotCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE SCHEMA consumer`)
	if err := inbox.Migrate(t.Context(), l.Pool, "consumer"); err != nil {
		t.Fatal(err)
	}
	rows, err := l.Query(t.Context(), `SELECT n.nspname::text || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('public', 'consumer') AND c.relkind IN ('r', 'p')`)
	if err != nil {
		t.Fatal(err)
	}
	own, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(own) < 25 {
		t.Fatalf("own tables are %v, %v", own, err)
	}
	l.run(t, `CREATE TABLE outbox_event (id int PRIMARY KEY)`, `CREATE TABLE inbox_records (id int PRIMARY KEY)`, `CREATE TABLE consumer.events (id int PRIMARY KEY)`)
	for _, table := range own {
		_, err := l.Capture(t.Context(), capture.Capture{Table: table}, capture.Options{DryRun: true})
		wantRefused(t, err, "append for ever")
		_, err = l.Adopt(t.Context(), capture.Adoption{Table: table, Map: map[string]string{"id": "event_id"}}, capture.Options{DryRun: true})
		wantRefused(t, err, "append for ever")
	}
	for _, table := range []string{"outbox_event", "inbox_records", "consumer.events"} {
		l.capture(t, capture.Capture{Table: table})
	}
}
