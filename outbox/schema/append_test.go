package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestAppendFromSQL(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 64))
	first := one[int64](t, conn, `SELECT outbox_append('order-1', 'order.placed', '{"b": 1,  "a": 2}', partition_key => 'customer-9')`)
	second := one[int64](t, conn, `SELECT outbox_append('order-1', 'order.paid', '{}', expected_version => 1, topic => 'shop',
		metadata => '{"traceparent": "00-a", "headers": {"x": "y"}}', tenant_id => 'acme', partition_key => 'customer-9')`)
	if second <= first {
		t.Errorf("sequences %d, %d do not ascend", first, second)
	}
	got := one[string](t, conn, `SELECT string_agg(format('%s %s %s %s %s %s %s', stream_version, event_type, topic, convert_from(payload, 'UTF8'),
		coalesce(tenant_id, '-'), coalesce(routing_key, '-'), audit_only), '; ' ORDER BY sequence) FROM events`)
	if want := `1 order.placed default {"a": 2, "b": 1} - customer-9 f; 2 order.paid shop {} acme customer-9 f`; got != want {
		t.Errorf("events:\n got %s\nwant %s", got, want)
	}
	placed := one[bool](t, conn, `SELECT bool_and(o.partition_key = outbox_partition(coalesce(e.routing_key, e.stream_id), 64))
		FROM outbox_ready AS o JOIN events AS e ON e.sequence = o.global_sequence`)
	if !placed || one[int](t, conn, `SELECT count(*) FROM outbox_ready`) != 2 {
		t.Error("pointer rows are not where they belong")
	}
}

func TestAppendBytesKeepsBytes(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `SELECT outbox_append_bytes('b', 't', '\x00ff0a')`)
	if !one[bool](t, conn, `SELECT payload = '\x00ff0a' FROM events`) {
		t.Error("the payload changed")
	}
}

func TestAppendScheduledAndAuditOnly(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `SELECT outbox_append('s', 't', '{}', available_at => clock_timestamp() + interval '1 hour')`)
	run(t, conn, `SELECT outbox_append('s', 't', '{}', available_at => clock_timestamp() - interval '1 hour')`)
	run(t, conn, `SELECT outbox_append('s', 't', '{}', publish => false, available_at => clock_timestamp() + interval '1 hour')`)
	got := one[string](t, conn, `SELECT string_agg(format('%s %s %s', global_sequence, parked, available_at > clock_timestamp()), '; ' ORDER BY global_sequence) FROM outbox`)
	if want := "1 t t; 2 f f"; got != want {
		t.Errorf("outbox: got %s, want %s", got, want)
	}
	if one[string](t, conn, `SELECT string_agg(audit_only::text, ' ' ORDER BY sequence) FROM events`) != "false false true" {
		t.Error("audit_only is wrong")
	}
}

// Whoever appends in a join, once for each row of a table, has an event of each, also where rows are alike.
func TestRowsThatAreAlikeAreAllAppended(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `CREATE TEMPORARY TABLE input AS SELECT 's'::text AS stream, '{}'::text AS body FROM generate_series(1, 1000)`)
	run(t, conn, `ANALYZE input`)
	for i, call := range []string{
		`outbox_append(i.stream, 't', i.body::jsonb)`, `outbox_append_one(i.stream, 't', i.body::jsonb)`, `outbox_append_bytes(i.stream, 't', i.body::bytea)`,
		`outbox_append_one_bytes(i.stream, 't', i.body::bytea)`,
		`outbox_append_batch(ARRAY[i.stream], '{t}', ARRAY[i.body]::bytea[])`, `outbox_append_batch(ARRAY[i.stream, i.stream], '{t,t}', ARRAY[i.body, i.body]::bytea[])`,
	} {
		run(t, conn, `SELECT count(o.*) FROM input AS i, `+call+` AS o`)
		if n, want := one[int](t, conn, `SELECT count(*) FROM events`), 1000*(i+1+i/5); n != want {
			t.Errorf("%s: %d events, want %d", call, n, want)
		}
	}
}

func TestAppendConflict(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `SELECT outbox_append('it''s', 't', '{}', expected_version => 0)`)
	_, err := conn.Exec(t.Context(), `SELECT outbox_append('it''s', 't', '{}', expected_version => 0)`)
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != "OB001" || answer.Message != "stream 'it''s' is at version 1, expected 0" ||
		answer.Detail != `{"actual": 1, "stream": "it's", "expected": 0}` {
		t.Errorf("conflict: %+v", answer)
	}
	refused(t, conn, `SELECT outbox_append_batch('{a}', '{t,t}', '{x,y}')`, "22023")
	refused(t, conn, `SELECT outbox_append_batch('{a,a}', '{t,t}', '{x,y}', expected_versions => '{0,0}')`, "OB001")
	refused(t, conn, `SELECT outbox_append_batch('{a,a}', '{t,t}', '{x,y}', expected_versions => '{0,5}')`, "OB001")
	run(t, conn, `SELECT outbox_append_batch('{a,a}', '{t,t}', '{x,y}', expected_versions => '{0,1}')`)
}

// TestAppendRefuses gives each argument something that it must not be, to the
// single and to the batch function.
func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	long := "'" + strings.Repeat("x", 1025) + "'"
	for _, bad := range []struct{ stream, kind, payload, options, batch, names string }{
		{stream: "''", names: "stream_id"},
		{stream: "NULL", names: "stream_id"},
		{stream: long, names: "stream_id"},
		{stream: `E'a\nb'`, names: "stream_id"},
		{stream: `E'a\u0085b'`, names: "stream_id"},
		{stream: "' a'", names: "stream_id"},
		{kind: "'a '", names: "event_type"},
		{kind: "''", names: "event_type"},
		{kind: `E'a\x7f'`, names: "event_type"},
		{payload: "NULL", names: "payload"},
		{options: "topic => ''", batch: "topics => ARRAY['t','']", names: "topic"},
		{options: `topic => E'\x01'`, batch: `topics => ARRAY['t',E'\x01']`, names: "topic"},
		{options: "partition_key => ''", batch: "partition_keys => ARRAY['t','']", names: "partition_key"},
		{options: "dedupe_key => " + long, batch: "dedupe_keys => ARRAY['t'," + long + "]", names: "dedupe_key"},
		{options: `tenant_id => E'\t'`, batch: `tenant_ids => ARRAY['t',E'\t']`, names: "tenant_id"},
		{options: "expected_version => -1", batch: "expected_versions => ARRAY[0,-1]", names: "expected_version"},
		{options: "expected_version => 9223372036854775807", batch: "expected_versions => ARRAY[0,9223372036854775807]", names: "expected_version"},
		instant("infinity", "available_at", "not_before"), instant("-infinity", "available_at", "not_before"), instant("10000-01-01 00:00Z", "available_at", "not_before"),
		instant("infinity", "occurred_at", "occurred"), instant("-infinity", "occurred_at", "occurred"), instant("0001-12-31 23:59:59Z BC", "occurred_at", "occurred"),
		{options: "event_id => '00000000-0000-0000-0000-000000000000'", batch: "event_ids => ARRAY[NULL,'00000000-0000-0000-0000-000000000000']::uuid[]", names: "event_id"},
		metadata(`{"headers": {"Foo": "x", "b": "y", "fOO": "z"}}`, "must not come twice"),
		metadata(`{"note": "`+strings.Repeat("x", 262144)+`"}`, "262144"),
		metadata(`[]`, "metadata"), metadata(`"x"`, "metadata"), metadata(`null`, "metadata"),
		metadata(`{"traceparent": 1}`, "traceparent"),
		metadata(`{"traceparent": "a\r\nNats-Rollup: all"}`, "traceparent"),
		metadata(`{"headers": []}`, "headers"),
		metadata(`{"headers": {"a": 1}}`, "must be a string"),
		metadata(`{"headers": {"": "x"}}`, "token"),
		metadata(`{"headers": {"a b": "x"}}`, "token"),
		metadata(`{"headers": {"a:": "x"}}`, "token"),
		metadata(`{"headers": {"a\r\nb": "x"}}`, "token"),
		metadata(`{"headers": {"NATS-Msg-Id": "x"}}`, "must not begin"),
		metadata(`{"headers": {"outbox-epoch": "x"}}`, "must not begin"),
		metadata(`{"headers": {"Status": "409"}}`, "take for the server's"), metadata(`{"headers": {"dEscription": ""}}`, "take for the server's"),
		metadata(`{"headers": {"KV-Operation": "DEL"}}`, "take for the server's"),
		metadata(`{"headers": {"a": "x\r\ny: z"}}`, "line breaks"),
		metadata(`{"headers": {"a": "x\u009b31my"}}`, "control characters"),
		metadata(`{"headers": {"a": "`+strings.Repeat("x", 32768)+`"}}`, "32768"),
	} {
		for i, field := range []*string{&bad.stream, &bad.kind, &bad.payload} {
			if *field == "" {
				*field = []string{"'s'", "'t'", "'{}'"}[i]
			}
		}
		options, batch := bad.options, bad.batch
		if options != "" {
			options, batch = ", "+options, ", "+batch
		}
		for _, sql := range []string{
			`SELECT outbox_append(` + bad.stream + `, ` + bad.kind + `, ` + bad.payload + options + `)`,
			`SELECT outbox_append_batch(ARRAY['s',` + bad.stream + `], ARRAY['t',` + bad.kind + `], ARRAY['x',` + bad.payload + `]::bytea[]` + batch + `)`,
		} {
			_, err := conn.Exec(t.Context(), sql)
			var answer *pgconn.PgError
			if !errors.As(err, &answer) || answer.Code != "22023" || !strings.Contains(answer.Message, bad.names) {
				t.Errorf("%.200s: %v, want SQLSTATE 22023 naming %s", sql, err, bad.names)
			}
		}
	}
	if n := one[int](t, conn, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("%d refused events were written", n)
	}
	run(t, conn, `SELECT outbox_append_adopted('t', 'r', '00000000-0000-0000-0000-000000000000', 's', 't', 'd', 'x', NULL, false, NULL, NULL, NULL)`)
	if !one[bool](t, conn, `SELECT bool_and(event_id <> '00000000-0000-0000-0000-000000000000') FROM events`) {
		t.Error("a row of another relay with the nil UUID keeps that")
	}
}

func instant(text, field, column string) struct{ stream, kind, payload, options, batch, names string } {
	return struct{ stream, kind, payload, options, batch, names string }{
		options: field + " => '" + text + "'", batch: column + " => ARRAY[NULL,'" + text + "']::timestamptz[]", names: field,
	}
}

func metadata(text, names string) struct{ stream, kind, payload, options, batch, names string } {
	literal := "E'" + strings.ReplaceAll(text, `\`, `\\`) + "'"
	return struct{ stream, kind, payload, options, batch, names string }{
		options: "metadata => " + literal, batch: "event_metadata => ARRAY[NULL," + literal + "]::jsonb[]", names: names,
	}
}

func TestAppendPayloadLimit(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `UPDATE outbox_settings SET max_payload_bytes = 10`)
	run(t, conn, `SELECT outbox_append_bytes('s', 't', '0123456789')`)
	refused(t, conn, `SELECT outbox_append_bytes('s', 't', '0123456789a')`, "54000")
	refused(t, conn, `SELECT outbox_append_batch('{s,s}', '{t,t}', '{x,0123456789a}')`, "54000")
}
