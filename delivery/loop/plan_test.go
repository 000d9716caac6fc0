package loop_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
)

// A vacuum finds the outbox empty, as it nearly always is; then a burst comes. Until the next vacuum PostgreSQL takes
// the table for empty, and any plan that scans it for every message for a cheap one.
func TestABurstIntoAnOutboxThatWasEmptyReadsEachRowAFewTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const events = 6000
	burst := `SELECT count(outbox_append('s-' || n % 150, 'thing.done', '{}')) FROM generate_series(1, 6000) AS n`
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
	} {
		b.exec(t, statement)
	}
	b.pool.Reset() // at the end of a session its counts come into the statistics
	b.until(t, `SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'events'`, 2*events)
	b.acquireAll(t, b.keeper)
	before := b.rowsRead(t, everyTable...)
	b.drain(t, b.relay(t, loop.Config{Ordering: delivery.OrderPartition, SweepInterval: time.Hour}))
	// About six reads each, more where batches are small since the machine is busy; a scan for every message makes thousands.
	b.wantFewReads(t, before, 20*events, everyTable...)
}

// The plans of a session are made for the outbox it saw first, mostly a nearly empty one, and kept. They
// must be as good for the backlog that comes later: small batches of it must not be looked for among all rows.
func TestPlansMadeOnAnEmptyOutboxFindTheRowsOfALargeOne(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	for _, table := range []string{"outbox_ready", "outbox_parked", "outbox_partitions"} {
		b.exec(t, `ALTER TABLE `+table+` SET (autovacuum_enabled = false)`)
	}
	b.acquireAll(t, b.keeper)
	// A sweep would read once more what was deleted.
	relay := b.relay(t, loop.Config{Ordering: delivery.OrderPartition, BatchSize: 20, SweepInterval: time.Hour})
	appended := `SELECT count(outbox_append('s-' || n % 150, 'thing.done', '{}')) FROM generate_series(1, $1) AS n`
	published := `SELECT coalesce(sum(published), 0) FROM outbox_throughput`
	b.exec(t, appended, 10)
	b.exec(t, `ANALYZE outbox_ready`)
	stop := b.start(t, relay)
	b.until(t, published, 10)
	// The backlog comes while its partitions are paused: else looks also read the rows whose transaction is still open.
	const events = 15_000
	b.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`)
	for range events / 500 {
		b.exec(t, appended, 500)
	}
	b.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	b.until(t, published, 10+events)
	stop()
	// Each row is read by its claim and by its mark. Behind a broker that was slow its partition is looked through once more.
	var slow int64
	for _, e := range relay.Stats().Errors {
		slow += int64(e.Count)
	}
	b.wantFewReads(t, 0, (5+2*slow)*events/2, "outbox_ready", "outbox_parked")
}

// wantFewReads wants that so many rows were read at most.
func (b *bundle) wantFewReads(t *testing.T, before, most int64, tables ...string) {
	t.Helper()
	config := b.pool.Config()
	b.pool.Close() // at the end of a session its counts come into the statistics
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.pool = pool
	b.until(t, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`, 0)
	read := b.rowsRead(t, tables...) - before
	t.Logf("%d rows read", read)
	if read > most {
		t.Errorf("%d rows were read, want %d at most", read, most)
	}
}

// everyTable are the tables that grow with the backlog.
var everyTable = []string{"outbox_ready", "outbox_parked", "events"}

// rowsRead is how many rows of the tables were read.
func (b *bundle) rowsRead(t *testing.T, tables ...string) (rows int64) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `
		SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname = ANY ($1))
		     + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname = ANY ($1))`, tables).Scan(&rows)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
