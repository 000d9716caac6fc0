package pgstore

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
)

func oldestStore(t *testing.T, partitions int) (*Store, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, partitions))
	store, err := New(t.Context(), pool, "public", Relation{})
	if err != nil {
		t.Fatal(err)
	}
	return store, pool
}

func execute(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// wantOldest reads and compares what waits, in whole minutes; -1: nothing.
func wantOldest(t *testing.T, store *Store, start map[partition.ID]int64, want ...int) map[partition.ID]int64 {
	t.Helper()
	o, err := store.Oldest(t.Context(), start)
	if err != nil || len(o.Partitions) != len(want) {
		t.Fatalf("%+v, %v", o, err)
	}
	next := map[partition.ID]int64{}
	for i, p := range o.Partitions {
		next[p.Partition] = p.Start
		if p.Pending != (want[i] >= 0) || p.Pending && int(p.Waited/time.Minute) != want[i] {
			t.Errorf("partition %d: %+v, want %d minutes", i, p, want[i])
		}
	}
	return next
}

// It says of every partition what the count would say, and follows the rows.
func TestTheOldestPendingRowIsFollowed(t *testing.T) {
	t.Parallel()
	store, pool := oldestStore(t, 4)
	execute(t, pool, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, blocked, attempts, dead_at, available_at)
		SELECT n, p, 's', parked, blocked, attempts, CASE WHEN dead THEN now() END, now() - minutes * interval '1 minute' - interval '10 s'
		  FROM (VALUES (10, 0, false, false, 0, false, 7), (11, 0, false, false, 0, false, 6), (12, 0, true, false, 0, false, 5),
		               (20, 1, true, false, 0, false, 4), (21, 1, true, false, 3, false, 9), (22, 1, true, true, 0, false, 9), (23, 1, true, false, 0, true, 9),
		               (30, 2, true, false, 0, false, -9)) AS r (n, p, parked, blocked, attempts, dead, minutes)`)
	b, err := store.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counted := map[partition.ID]int64{}
	for _, p := range b.Partitions {
		counted[p.Partition] = p.Start
	}
	if counted[0] != 10 || counted[3] != 0 {
		t.Errorf("the count starts at %v", counted)
	}
	for _, start := range []map[partition.ID]int64{nil, counted} {
		wantOldest(t, store, start, 7, 4, -1, -1)
	}
	execute(t, pool, `DELETE FROM outbox WHERE global_sequence = 10`, `UPDATE outbox_partitions SET delivered = 10 WHERE partition_key = 0`)
	next := wantOldest(t, store, counted, 6, 4, -1, -1)
	execute(t, pool, `DELETE FROM outbox WHERE partition_key = 0`, `UPDATE outbox_partitions SET delivered = 12 WHERE partition_key = 0`)
	next = wantOldest(t, store, next, -1, 4, -1, -1)
	if next[0] != 12 {
		t.Errorf("after all was delivered the next look begins at %d", next[0])
	}
	// A replay's row is below; the next count finds it.
	execute(t, pool, `INSERT INTO outbox (global_sequence, partition_key, stream_id, available_at) VALUES (5, 0, 's', now() - interval '90 s')`)
	next = wantOldest(t, store, next, -1, 4, -1, -1)
	if b, err = store.Backlog(t.Context()); err != nil || b.Partitions[0].Start != 5 {
		t.Fatalf("%+v, %v", b, err)
	}
	next[0] = b.Partitions[0].Start
	wantOldest(t, store, next, 1, 4, -1, -1)
}

// What was delivered is not waded through, though nothing may clean it up, nor is
// the backlog read, whatever the planner believes about it.
func TestTheOldestPendingRowIsFoundBeyondDeadRows(t *testing.T) {
	t.Parallel()
	store, pool := oldestStore(t, 2)
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(t.Context()) }()
	if _, err := old.Exec(t.Context(), `SELECT count(*) FROM outbox`); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `ALTER TABLE outbox_ready SET (autovacuum_enabled = false)`, `ALTER TABLE outbox_parked SET (autovacuum_enabled = false)`,
		`ANALYZE outbox_ready`, `ANALYZE outbox_parked`,
		`INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, attempts)
		 SELECT n, n % 2, 's', n % 10 = 0, CASE WHEN n % 10 = 0 THEN 1 ELSE 0 END FROM generate_series(1, 30000) AS n`,
		`DELETE FROM outbox WHERE NOT parked AND global_sequence < 20001`, `UPDATE outbox_partitions SET delivered = 20000`)
	start := wantOldest(t, store, map[partition.ID]int64{0: 20000, 1: 20000}, 0, 0)
	if start[0] != 20002 || start[1] != 20001 {
		t.Errorf("it starts at %v", start)
	}
	wading, direct := buffers(t, store, pool, nil), buffers(t, store, pool, start)
	t.Logf("%.0f buffers from the beginning, %.0f from the row found before", wading, direct)
	if direct > 60 || wading < 5*direct {
		t.Errorf("%.0f buffers were read, from the beginning it would be %.0f", direct, wading)
	}
}

// buffers is how many pages a look reads.
func buffers(t *testing.T, store *Store, pool *pgxpool.Pool, start map[partition.ID]int64) float64 {
	t.Helper()
	var plans []struct {
		Plan map[string]any
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := store.sql.Probing.Exec(t.Context(), tx, nil); err != nil {
			return err
		}
		ids, from := []partition.ID{}, []int64{}
		for id, sequence := range start {
			ids, from = append(ids, id), append(from, sequence)
		}
		var text []byte
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+store.sql.Oldest.Text, ids, from).Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal(text, &plans)
	})
	if err != nil {
		t.Fatal(err)
	}
	hit, _ := plans[0].Plan["Shared Hit Blocks"].(float64)
	read, _ := plans[0].Plan["Shared Read Blocks"].(float64)
	return hit + read
}
