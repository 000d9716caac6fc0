package capture_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/capture"
)

// A database that gives backslashes in texts a meaning gives statements here none.
func TestADatabaseWithBackslashesInTexts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database()); END $$`)
	config, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Connections{Name: "capture", Most: 2}.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	ours := labAt(t, l.url, pool)
	l.run(t, `CREATE TABLE staff (id int PRIMARY KEY, name text, salary int)`, `INSERT INTO staff VALUES (1, 'n', 2)`, `CREATE TABLE q (id bigserial PRIMARY KEY, body json)`, `INSERT INTO q (body) VALUES ('{"of":"s"}')`,
		`CREATE PUBLICATION theirs FOR TABLE staff (id, name)`)
	if done, err := ours.Capture(t.Context(), capture.Capture{Table: "staff"}, capture.Options{Publication: "theirs", Backfill: true}); err != nil || done.Imported != 1 {
		t.Errorf("the backfill told %d rows of 1: %v", done.Imported, err)
	}
	if _, err := ours.Drop(t.Context(), capture.Captured, "staff", capture.Options{}); err != nil {
		t.Error(err)
	}
	if got := one[string](t, l, `SELECT attnames::text FROM pg_publication_tables WHERE pubname = 'theirs'`); got != "{id,name}" {
		t.Errorf("of the table %s are published now, want id and name", got)
	}
	ours.wantImported(t, capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id", "body.of": "stream_id", "body": "payload"}, Type: "t"}, 1)
}
