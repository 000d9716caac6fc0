package schema_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// What is queued is on disk when it is visible, whatever the producer's session says, and in whatever way it was queued: workers publish
// it without asking.
func TestWhatIsQueuedIsDurableWhenItIsVisible(t *testing.T) {
	t.Parallel()
	const (
		appends = `SELECT outbox_append('s', 't', '{}')`
		byHand  = `INSERT INTO outbox (global_sequence, partition_key, parked, stream_id) SELECT coalesce(max(global_sequence), 0) + 1, 0, false, 's' FROM outbox`
		later   = `SELECT outbox_append('s', 't', '{}', available_at => clock_timestamp() + interval '1 hour')`
	)
	ways := map[string][]string{
		"an append":                     {`SET LOCAL synchronous_commit = off`, appends},
		"switched off behind an append": {appends, `SET LOCAL synchronous_commit = off`},
		"in a savepoint":                {`SET LOCAL synchronous_commit = off`, `SAVEPOINT a`, appends, `RELEASE a`},
		"behind a savepoint that failed": {
			`SET LOCAL synchronous_commit = off`, `SAVEPOINT a`, appends, `ROLLBACK TO a`, appends,
		},
		"many":                               {`SET LOCAL synchronous_commit = off`, `SELECT count(*) FROM outbox_append_batch(ARRAY['a', 'b'], ARRAY['t', 't'], ARRAY['1', '2']::bytea[])`},
		"a scheduled one":                    {`SET LOCAL synchronous_commit = off`, later},
		"a pointer by hand":                  {`SET LOCAL synchronous_commit = off`, byHand},
		"in the role of a replica":           {`SET LOCAL synchronous_commit = off`, `SET LOCAL session_replication_role = replica`, appends},
		"one that is parked, or comes back":  {`SET LOCAL synchronous_commit = off`, `UPDATE outbox SET parked = NOT parked WHERE global_sequence = (SELECT min(global_sequence) FROM outbox)`},
		"with constraints that wait no more": {`SET LOCAL synchronous_commit = off`, `SET CONSTRAINTS ALL IMMEDIATE`, appends},
	}
	conn, err := pgx.Connect(t.Context(), pgtest.Migrated(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	commit := func(statements ...string) (flushed bool) {
		t.Helper()
		var before string
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			for _, sql := range statements {
				if _, err := tx.Exec(t.Context(), sql); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return tx.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&before) // the commit's record comes behind it
		})
		if err == nil {
			err = conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn() > $1::pg_lsn`, before).Scan(&flushed)
		}
		if err != nil {
			t.Fatal(err)
		}
		return flushed
	}
	commit(appends, later, byHand)
	// The server's own writer may be as quick, so it must be seen that a commit can be visible before.
	unflushed := false
	for range 100 {
		unflushed = unflushed || !commit(`SET LOCAL synchronous_commit = off`, `UPDATE outbox_settings SET generation = generation`)
	}
	if !unflushed {
		t.Error("each asynchronous commit was on disk at once: the test proves nothing")
	}
	for name, statements := range ways {
		for range 5 {
			if !commit(statements...) {
				t.Errorf("%s: the commit is not on disk", name)
				break
			}
		}
	}
}
