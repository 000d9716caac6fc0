package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// fillSteps make an outbox of $1 rows: nine of ten can be published now; of the
// others half are blocked, a fifth scheduled, a fifth failed and the rest dead. Before
// them come as many published ones as a tenth, with their history. Another worker
// holds every lease, so that nothing is delivered.
func fillSteps() []string {
	return []string{
		`ALTER TABLE events DROP CONSTRAINT events_event_id_key, DROP CONSTRAINT events_stream_version_key`,
		`INSERT INTO events (sequence, stream_id, stream_version, event_type, topic, payload, recorded_at) OVERRIDING SYSTEM VALUE
		 SELECT n, 'stream-' || n % 100000, n / 100000 + 1, CASE n % 3 WHEN 0 THEN 'order.paid' ELSE 'order.placed' END,
		        CASE n % 2 WHEN 0 THEN 'shop' ELSE 'default' END, convert_to('{"n": ' || n || ', "filling": "' || repeat('x', 60) || '"}', 'UTF8'),
		        clock_timestamp() - ($1::bigint * 11 / 10 - n) * interval '1 ms'
		   FROM generate_series(1, $1::bigint * 11 / 10) AS n`,
		`ALTER TABLE events ADD CONSTRAINT events_event_id_key UNIQUE (event_id), ADD CONSTRAINT events_stream_version_key UNIQUE (stream_id, stream_version)`,
		`SELECT setval(pg_get_serial_sequence('events', 'sequence'), max(sequence)) FROM events`,
		`INSERT INTO outbox_ready (global_sequence, partition_key, stream_id, topic, available_at)
		 SELECT sequence, sequence % 100000 % 64, stream_id, topic, recorded_at FROM events
		  WHERE sequence > $1::bigint / 10 AND sequence % 10 <> 7`,
		`INSERT INTO outbox_parked (global_sequence, partition_key, stream_id, topic, parked, blocked, attempts, dead_at, last_error, available_at)
		 SELECT sequence, sequence % 100000 % 64, stream_id, topic, true, kind < 5, CASE WHEN kind < 7 THEN 0 WHEN kind = 9 THEN 8 ELSE 3 END,
		        CASE WHEN kind = 9 THEN recorded_at END, CASE WHEN kind > 6 THEN 'refused by stream EVENTS: too large' END,
		        CASE WHEN kind > 4 AND kind < 9 THEN clock_timestamp() + interval '1 day' ELSE recorded_at END
		   FROM (SELECT *, sequence / 10 % 10 AS kind FROM events WHERE sequence > $1::bigint / 10 AND sequence % 10 = 7) AS e`,
		`INSERT INTO outbox_deliveries (lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence,
		        published_at, message_count, partition_key, sequences)
		 SELECT 1, min(sequence), max(sequence), min(sequence), min(sequence) + count(*) - 1, max(recorded_at), count(*), p, array_agg(sequence ORDER BY sequence)
		   FROM (SELECT sequence, recorded_at, sequence % 100000 % 64 AS p FROM events WHERE sequence <= $1::bigint / 10) AS e
		  GROUP BY p, sequence / 20000`,
		`INSERT INTO outbox_throughput (minute, partition_key, published, failed)
		 SELECT date_trunc('minute', now()) - m * interval '1 minute', p, 1000, 1 FROM generate_series(0, 10079) AS m, generate_series(0, 63) AS p
		  WHERE $1::bigint > 0`,
		`INSERT INTO outbox_audit (actor, action, target, reason)
		 SELECT 'bench', 'message.requeue', jsonb_build_object('sequence', n), 'bench' FROM generate_series(1, 10000) AS n WHERE $1::bigint > 0`,
		`INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until)
		 VALUES ('01890000-0000-7000-8000-000000000000', 'elsewhere', 1, 'bench', clock_timestamp() + interval '1 year')`,
		`UPDATE outbox_partitions SET lease_owner = '01890000-0000-7000-8000-000000000000', lease_epoch = 1, lease_until = clock_timestamp() + interval '1 year'`,
	}
}

// fillOutbox fills a database that is not filled yet.
func fillOutbox(b *testing.B, pool *pgxpool.Pool, rows int) {
	b.Helper()
	began := time.Now()
	var filled bool
	if err := pool.QueryRow(b.Context(), `SELECT EXISTS (SELECT FROM outbox)`).Scan(&filled); err != nil {
		b.Fatal(err)
	}
	if !filled {
		err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
			for _, step := range fillSteps() {
				var arguments []any
				if strings.Contains(step, "$1") {
					arguments = append(arguments, rows)
				}
				if _, err := tx.Exec(b.Context(), step, arguments...); err != nil {
					return fmt.Errorf("%w: %s", err, step)
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Exec(b.Context(), `VACUUM ANALYZE`); err != nil {
			b.Fatal(err)
		}
	}
	var found int
	var size string
	if err := pool.QueryRow(b.Context(), `SELECT count(*), pg_size_pretty(pg_database_size(current_database())) FROM outbox`).Scan(&found, &size); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d rows wait in a database of %s; filling took %s", found, size, time.Since(began).Round(time.Second))
}
