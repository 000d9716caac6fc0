package schema_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// TestMessages puts a row of every kind into the tables and reads the view.
func TestMessages(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 1))
	for i := range 20 {
		run(t, conn, `SELECT outbox_append($1, 't', '{}')`, fmt.Sprintf("s-%d", i+1))
	}
	for _, sql := range []string{
		`UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 8, last_error = 'too large' WHERE global_sequence = 1`,
		`UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = 2`,
		`UPDATE outbox SET parked = true, attempts = 2, last_error = 'refused' WHERE global_sequence = 3`,
		`DELETE FROM outbox WHERE global_sequence > 4`,
		// 5..8 without holes; 10, 12, 13 with holes in both; 14..16 of which 15 was skipped, 14 after two failures
		`INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, message_count)
		 VALUES (0, 1, 5, 8, 101, 104, 4)`,
		`INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, sequences, first_stream_sequence, last_stream_sequence, stream_sequences, message_count)
		 VALUES (0, 1, 10, 13, '{10,12,13}', 110, 120, '{110,115,120}', 3)`,
		`INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, stream_sequences, skipped, attempts, message_count)
		 VALUES (0, 1, 14, 16, 121, 122, '{121,NULL,122}', '{15}', '{"14": 2}', 2)`,
		// 5 was replayed as generation 1; 6 is queued again
		`INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, generations, message_count)
		 VALUES (0, 2, 5, 5, 200, 200, '{"5": 1}', 1)`,
		`INSERT INTO outbox (global_sequence, partition_key, stream_id, generation) VALUES (6, 0, 's-6', 1)`,
	} {
		run(t, conn, sql)
	}
	rows, err := conn.Query(t.Context(), `
		SELECT format('%s %s %s %s %s g%s', global_sequence, stream_id, state, attempts, coalesce(stream_sequence::text, '-'), generation)
		  FROM outbox_messages ORDER BY global_sequence`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 s-1 dead 8 - g0", "2 s-2 blocked 0 - g0", "3 s-3 failed 2 - g0", "4 s-4 pending 0 - g0",
		"5 s-5 published 0 200 g1", "6 s-6 pending 0 - g1", "7 s-7 published 0 103 g0", "8 s-8 published 0 104 g0",
		"10 s-10 published 0 110 g0", "12 s-12 published 0 115 g0", "13 s-13 published 0 120 g0",
		"14 s-14 published 2 121 g0", "15 s-15 skipped 0 - g0", "16 s-16 published 0 122 g0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("outbox_messages:\n got %q\nwant %q", got, want)
	}
	if n := one[int](t, conn, `SELECT count(*) FROM outbox_messages`); n != len(want) {
		t.Errorf("count(*) = %d, want %d", n, len(want))
	}
}

// TestMessagesStayLinear has enough rows that a plan which compares each
// published one with each replayed one would run for minutes.
func TestMessagesStayLinear(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, message_count)
		SELECT b % 4, 1, b * 500 + 1, b * 500 + 500, b * 500 + 1, b * 500 + 500, 500 FROM generate_series(0, 399) AS b`)
	run(t, conn, `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, generations, message_count)
		SELECT 0, 2, i, i, 900000 + i, 900000 + i, jsonb_build_object(i, 1), 1 FROM generate_series(1, 20000) AS i`)
	run(t, conn, `INSERT INTO outbox (global_sequence, partition_key, stream_id, generation) SELECT i, 1, 's', 1 FROM generate_series(100001, 120000) AS i`)
	for _, statistics := range []string{`SELECT`, `ANALYZE`} {
		run(t, conn, statistics)
		run(t, conn, `SET statement_timeout = '20s'`)
		if n := one[int](t, conn, `SELECT count(*) FROM outbox_messages`); n != 200000 {
			t.Errorf("count(*) = %d, want 200000", n)
		}
	}
}

// TestPrivileges calls the functions as a role that has EXECUTE and nothing else.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn := connect(t, url)
	role := pgx.Identifier{"producer_" + one[string](t, conn, `SELECT replace(gen_random_uuid()::text, '-', '')`)}.Sanitize()
	run(t, conn, `CREATE ROLE `+role)
	t.Cleanup(func() { cleanUp(t, url, `DROP OWNED BY `+role, `DROP ROLE `+role) })
	run(t, conn, `SET ROLE `+role)
	for _, sql := range []string{
		`SELECT outbox_append('s', 't', '{}')`, `SELECT outbox_append_bytes('s', 't', 'x')`,
		`SELECT outbox_append_batch('{s}', '{t}', '{x}')`, `SELECT outbox_metadata_problem('{}')`,
		`SELECT outbox_append_adopted('a', 'r', NULL, 's', 't', 'd', 'x', NULL, false, NULL, NULL, NULL)`,
		`SELECT outbox_adopted_event('a', 'r', NULL, 's', 't', 'd', 'x', NULL, false, NULL, NULL, NULL)`,
		`SELECT outbox_append_one('s', 't', '{}')`, `SELECT outbox_append_one_bytes('s', 't', 'x')`, `SELECT outbox_schema_problem('{}')`, `SELECT outbox_mismatch('{}', '{}', '{}', '', 0)`,
	} {
		refused(t, conn, sql, "42501")
	}
	run(t, conn, `SELECT outbox_partition('a', 4)`)
	run(t, conn, `RESET ROLE`)
	run(t, conn, `GRANT EXECUTE ON FUNCTION outbox_append, outbox_append_bytes, outbox_append_batch TO `+role)
	run(t, conn, `SET ROLE `+role)
	// A hostile caller puts its own objects in front of ours.
	run(t, conn, `CREATE TEMPORARY TABLE outbox_settings (partition_count int, max_payload_bytes bigint)`)
	run(t, conn, `CREATE TEMPORARY TABLE events (stream_id text, stream_version bigint)`)
	run(t, conn, `SET search_path = pg_temp, public`)
	run(t, conn, `SELECT public.outbox_append('s', 't', '{}', metadata => '{"headers":{"a":"b"}}', dedupe_key => 'k')`)
	run(t, conn, `SELECT public.outbox_append_batch('{s,u}', '{t,t}', '{x,y}')`)
	for _, sql := range []string{
		`SELECT count(*) FROM public.events`, `SELECT count(*) FROM public.outbox`,
		`INSERT INTO public.events (stream_id, stream_version, event_type, payload) VALUES ('s', 9, 't', 'x')`,
		`SELECT nextval('public.events_sequence_seq')`,
		`SELECT public.outbox_append_event('s','t','x',NULL,NULL,'d',NULL,NULL,NULL,NULL,true,NULL,NULL,NULL)`,
	} {
		refused(t, conn, sql, "42501")
	}
	run(t, conn, `RESET ROLE`)
	if n := one[int](t, conn, `SELECT count(*) FROM public.events`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

// TestColumnGrant shows what the comment in the first migration claims.
func TestColumnGrant(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn := connect(t, url)
	role := pgx.Identifier{"writer_" + one[string](t, conn, `SELECT replace(gen_random_uuid()::text, '-', '')`)}.Sanitize()
	run(t, conn, `CREATE ROLE `+role)
	t.Cleanup(func() { cleanUp(t, url, `DROP OWNED BY `+role, `DROP ROLE `+role) })
	run(t, conn, `GRANT INSERT (stream_id, stream_version, event_type, payload) ON events TO `+role)
	run(t, conn, `SET ROLE `+role)
	run(t, conn, `INSERT INTO events (stream_id, stream_version, event_type, payload) VALUES ('s', 1, 't', 'x')`)
	refused(t, conn, `INSERT INTO events (sequence, stream_id, stream_version, event_type, payload)
	                  OVERRIDING SYSTEM VALUE VALUES (77, 's', 2, 't', 'x')`, "42501")
}
