package schema_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Nobody who may CREATE in a schema decides what a function of ours calls: its path is pg_catalog, its body was parsed when
// it was made, or it can only be called by such functions.
func TestFunctionsHaveAFixedPath(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	rows, err := conn.Query(t.Context(), `
		SELECT p.proname FROM pg_proc AS p
		 WHERE p.pronamespace = 'public'::regnamespace AND p.prosqlbody IS NULL
		   AND (p.prosecdef OR p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) AS a WHERE a.grantee <> p.proowner))
		   AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)`)
	if err != nil {
		t.Fatal(err)
	}
	loose, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range loose {
		t.Errorf("%s runs with its caller's search_path: SET search_path = pg_catalog, pg_temp", name)
	}
	if one[int](t, conn, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'outbox\_%'`) < 13 {
		t.Error("the functions were not found")
	}
}

// A producer that appends to its streams in the order of their ids, one by one, meets no deadlock with a batch. The ids are
// such that the order of their hashes is the other one.
func TestBatchesLockInTheOrderOfStreams(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	single, batch, look := connect(t, url), connect(t, url), connect(t, url)
	streams := one[[]string](t, look, `
		SELECT ARRAY[a, b] FROM (SELECT 'order-' || n AS a FROM generate_series(10, 99) AS n) AS a,
		                        (SELECT 'order-' || n AS b FROM generate_series(10, 99) AS n) AS b
		 WHERE a < b COLLATE "C" AND hashtextextended(a, 'events'::regclass::oid::bigint) > hashtextextended(b, 'events'::regclass::oid::bigint) LIMIT 1`)
	run(t, single, `BEGIN`)
	run(t, single, fmt.Sprintf(`SELECT outbox_append('%s', 't', '{}')`, streams[0]))
	done := make(chan error, 1)
	go func() {
		_, err := batch.Exec(t.Context(), `SELECT outbox_append_batch($1, '{t,t}', '{x,x}')`, []string{streams[1], streams[0]})
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for waits := false; !waits; {
		if err := look.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1)`,
			batch.PgConn().PID()).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	run(t, single, fmt.Sprintf(`SELECT outbox_append('%s', 't', '{}')`, streams[1]))
	run(t, single, `COMMIT`)
	if err := <-done; err != nil {
		t.Errorf("the batch: %v", err)
	}
}
