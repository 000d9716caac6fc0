package delivery_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
)

// A vacuum finds the outbox empty, as it nearly always is; then a burst comes. Until the next vacuum PostgreSQL takes
// the table for empty, and any plan that scans it for every message for a cheap one.
func TestABurstIntoAnOutboxThatWasEmptyReadsEachRowAFewTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const events = 6000
	burst := `SELECT count(outbox_append('s-' || n % 150, 'thing.done', '{}')) FROM generate_series(1, 6000) AS n`
	exec := func(statement string) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{
		`ALTER TABLE outbox_ready SET (autovacuum_enabled = false)`,
		`ALTER TABLE outbox_parked SET (autovacuum_enabled = false)`,
		burst, `UPDATE outbox SET parked = true, available_at = now() + interval '1 hour' WHERE global_sequence % 2 = 0`,
		`DELETE FROM outbox`, `VACUUM (TRUNCATE false, ANALYZE) outbox_ready`, `VACUUM (TRUNCATE false, ANALYZE) outbox_parked`,
		burst,
		// A stream in five waits behind its first row, and goes on when that is due.
		`UPDATE outbox SET parked = true, blocked = true WHERE stream_id ~ '[05]$' AND global_sequence <= 9000`,
		`UPDATE outbox AS o SET blocked = false, attempts = 1
		  WHERE parked AND NOT EXISTS (SELECT FROM outbox AS e WHERE e.parked AND e.stream_id = o.stream_id AND e.global_sequence < o.global_sequence)`,
		`SELECT pg_stat_force_next_flush()`,
	} {
		exec(statement)
	}
	b.acquireAll(t, b.keeper)
	before := b.rowsRead(t)
	b.drain(t, b.relay(t, delivery.Config{Ordering: delivery.OrderPartition}))
	config := b.pool.Config()
	b.pool.Close() // at the end of a session its counts come into the statistics
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b.pool = pool
	b.until(t, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`, 0)
	after := b.rowsRead(t)
	t.Logf("%d events: %d rows read", events, after-before)
	if each := float64(after-before) / events; each > 10 {
		t.Errorf("%.0f rows were read for each event", each)
	}
}

// rowsRead is how many rows of the tables that grow with the backlog were read.
func (b *bundle) rowsRead(t *testing.T) (rows int64) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `
		SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname IN ('outbox_ready', 'outbox_parked', 'events'))
		     + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname IN ('outbox_ready', 'outbox_parked', 'events'))`).Scan(&rows)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
