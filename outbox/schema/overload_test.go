package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// appendsExactly are calls of everything that producers and operators call, as such that leave nothing open.
var appendsExactly = []string{
	`SELECT outbox_append('s'::text, 'a'::text, '{}'::jsonb, NULL::bigint, '{"headers":{"a":"b"}}'::jsonb, 't'::text, 's'::text, 'd'::text, 'n'::text, true, clock_timestamp() + '1 h'::interval, gen_random_uuid(), clock_timestamp())`,
	`SELECT outbox_append('s'::text, 'a'::text, '{}'::jsonb, NULL::bigint, NULL::jsonb, NULL::text, NULL::text, NULL::text, NULL::text, NULL::boolean, NULL::timestamptz, NULL::uuid, NULL::timestamptz)`,
	`SELECT * FROM outbox_append_one('s'::text, 'checked'::text, '{"a/b":["x"]}'::jsonb, NULL::bigint, NULL::jsonb, NULL::text, NULL::text, NULL::text, NULL::text, NULL::boolean, NULL::timestamptz, NULL::uuid, NULL::timestamptz)`,
	`SELECT outbox_append_bytes('s'::text, 'a'::text, 'x'::bytea, NULL::bigint, NULL::jsonb, NULL::text, NULL::text, NULL::text, NULL::text, NULL::boolean, NULL::timestamptz, NULL::uuid, NULL::timestamptz)`,
	`SELECT * FROM outbox_append_one_bytes('s'::text, 'a'::text, 'x'::bytea, NULL::bigint, NULL::jsonb, NULL::text, NULL::text, NULL::text, NULL::text, NULL::boolean, NULL::timestamptz, NULL::uuid, NULL::timestamptz)`,
	`SELECT outbox_append_batch('{b}'::text[], '{checked}'::text[], '{"{}"}'::bytea[], ARRAY[gen_random_uuid()], NULL::bigint[], NULL::jsonb[], NULL::text[], NULL::text[], NULL::bigint[], NULL::text[], NULL::text[], NULL::boolean[], NULL::timestamptz[], NULL::timestamptz[])`,
	`SELECT outbox_append_batch('{b,b,c}'::text[], '{checked,a,a}'::text[], '{"{}",x,y}'::bytea[], ARRAY[gen_random_uuid()], NULL::bigint[], NULL::jsonb[], NULL::text[], NULL::text[], NULL::bigint[], '{k,k}'::text[], NULL::text[], NULL::boolean[], ARRAY[clock_timestamp() + '1 h'::interval], NULL::timestamptz[])`,
	`SELECT outbox_append_adopted('t'::text, 'r'::text, NULL::uuid, ' s '::text, 'a'::text, 'd'::text, 'x'::bytea, '{"headers":{"a b":[1],"Nats-X":"y"},"traceparent":1}'::text, false, 'n'::text, 'k'::text, 'infinity'::timestamptz) FROM generate_series(1, 3)`,
	`SELECT outbox_partition('k'::text, 8)`,
	`SELECT outbox_schema_problem('{"type":"object","properties":{"a/b":{"type":"array","items":{"type":"string","pattern":"x"}}}}'::jsonb)`,
	`SELECT count(*) FROM outbox_messages`,
}

// Nothing of the outbox calls a function of a stranger who may create in its schema, nor does one keep it from working, however alike
// its arguments are. Functions that nothing here calls are named.
func TestNothingOfTheOutboxCallsAStranger(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	setType(t, conn, "checked", `{"type":"object","properties":{"a/b":{"type":"array","items":{"$ref":"#/$defs/x"}}},"additionalProperties":{"type":"string"},"$defs":{"x":{"type":"string","pattern":"^x$"}}}`, true)
	names := pgtest.PlantOverloads(t, conn, "outbox_")
	var called []string
	for _, begin := range []string{"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"} {
		run(t, conn, begin)
		run(t, conn, `SET LOCAL track_functions = 'all'`)
		for _, sql := range appendsExactly {
			run(t, conn, sql)
		}
		run(t, conn, `SAVEPOINT conflict`)
		refused(t, conn, strings.Replace(appendsExactly[1], "NULL::bigint", "7::bigint", 1), "OB001")
		run(t, conn, `ROLLBACK TO conflict`)
		refused(t, conn, strings.Replace(appendsExactly[0], "'s'::text, 'd'::text", "'elsewhere'::text, NULL::text", 1), "22023")
		run(t, conn, `ROLLBACK TO conflict`)
		run(t, conn, `SELECT outbox_without_enqueue()`)
		run(t, conn, appendsExactly[1])
		run(t, conn, `SET CONSTRAINTS ALL IMMEDIATE`)
		called = append(called, pgtest.Called(t, conn)...)
		run(t, conn, `ROLLBACK`)
	}
	run(t, conn, appendsExactly[1])
	run(t, conn, `DELETE FROM outbox`)
	for _, sql := range []string{
		`SELECT outbox_events_hindrance()`, `SELECT outbox_events_bound()`, `ALTER TABLE events VALIDATE CONSTRAINT events_bound`, `SELECT outbox_events_split()`,
		`SELECT outbox_events_begin()`, `SELECT outbox_bad_utf8('of other encodings'::text, 1, 99)`, appendsExactly[0], appendsExactly[5], `DELETE FROM outbox`, `SELECT outbox_events_drop(0::bigint)`,
	} {
		run(t, conn, `BEGIN`)
		run(t, conn, `SET LOCAL track_functions = 'all'`)
		run(t, conn, sql)
		called = append(called, pgtest.Called(t, conn)...)
		run(t, conn, `COMMIT`)
	}
	inline := one[[]string](t, conn, `SELECT array_agg(proname::text) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosqlbody IS NOT NULL`)
	for _, name := range names {
		if !slices.Contains(called, name) && !slices.Contains(inline, name) {
			t.Errorf("nothing here calls %s, beside which strangers stand: call it, with every argument cast", name)
		}
	}
	pgtest.CheckStatements(t, conn, "outbox_", "../../internal/house/testdata/statements.sql")
}
