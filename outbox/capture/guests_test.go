package capture_test

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/outbox/capture"
)

// in runs statements in one session of the application.
func (l lab) in(t *testing.T, what string, statements ...string) {
	t.Helper()
	conn, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range append(statements, `RESET ALL`) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: the application's statement fails: %s: %v", what, sql, err)
		}
	}
}

// A column of the key that may be NULL by now names a stream, also when it has another type, or another name.
func TestAKeyBecomesNull(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE loose (k int NOT NULL UNIQUE, n int)`, `CREATE TABLE pairs (k int NOT NULL, n int NOT NULL)`)
	l.capture(t, capture.Capture{Table: "loose", Key: []string{"k"}})
	l.capture(t, capture.Capture{Table: "pairs", Key: []string{"k", "n"}})
	l.in(t, "NULL", `ALTER TABLE loose ALTER k DROP NOT NULL`, `INSERT INTO loose VALUES (NULL, 1)`, `ALTER TABLE loose ALTER k TYPE text`, `ALTER TABLE loose RENAME k TO "k%s"`, `UPDATE loose SET n = 2`,
		`UPDATE loose SET "k%s" = ''`, `ALTER TABLE pairs ALTER k DROP NOT NULL`, `INSERT INTO pairs VALUES (NULL, 1)`)
	const none = `public.loose:~d41d8cd98f00b204e9800998ecf8427e`
	l.tells(t, `loose `+none+` loose.inserted {"new":{"k":null,"n":1}}`, `loose `+none+` loose.updated {"new":{"k%s":null,"n":2}}`, `loose `+none+` loose.deleted {"old":{"k%s":null,"n":2}}`,
		`loose public.loose: loose.inserted {"new":{"k%s":"","n":2}}`, `pairs public.pairs:[null, 1] pairs.inserted {"new":{"k":null,"n":1}}`)
}

// As many columns name a stream as PostgreSQL passes to a function; more are refused, instead of failing writers.
func TestAKeyOfManyColumns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var keys []string
	for i := range 101 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	l.run(t, `CREATE TABLE wide (`+strings.Join(keys, ` int NOT NULL DEFAULT 0, `)+` int NOT NULL DEFAULT 0)`)
	_, err := l.Capture(t.Context(), capture.Capture{Table: "wide", Key: keys}, capture.Options{})
	wantRefused(t, err, "--key", "100 at most")
	l.capture(t, capture.Capture{Table: "wide", Key: keys[:100]})
	l.in(t, "100 columns", `INSERT INTO wide DEFAULT VALUES`, `ALTER TABLE wide RENAME k0 TO other`, `INSERT INTO wide DEFAULT VALUES`)
	if n := l.count(t); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// A session without row_security, as pg_restore has it, writes to an adopted table whose policies bind its owner.
func TestASessionWithoutRowSecurity(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	l.run(t, `CREATE TABLE q (id bigserial PRIMARY KEY, s text, k text, body text)`, `ALTER TABLE q OWNER TO `+owner, `GRANT USAGE ON SCHEMA public TO `+owner,
		`GRANT EXECUTE ON FUNCTION outbox_append_adopted TO `+owner)
	l.adopt(t, capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id", "s": "stream_id", "k": "type", "body": "payload"}, Delete: true})
	l.run(t, `CREATE POLICY seen ON q USING (s <> 'hidden')`, `ALTER TABLE q ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`)
	l.in(t, "row_security", `SET row_security = off`, `INSERT INTO q (s) VALUES ('s'), ('hidden')`)
	if n, left := l.count(t), one[string](t, l, `SELECT string_agg(s, ',') FROM q`); n != 2 || left != "hidden" {
		t.Errorf("%d events, want 2; left are %s", n, left)
	}
}

// Columns with collations of their own are compared byte by byte, in rows that wait as in those that come.
func TestCollationsOfAnAdoptedTable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if _, err := l.Exec(t.Context(), `CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`); err != nil {
		if answer, ok := errors.AsType[*pgconn.PgError](err); !ok || answer.Code != "0A000" {
			t.Fatal(err)
		}
		t.Skip("the server is built without ICU")
	}
	const rows = `INSERT INTO outboxevent SELECT gen_random_uuid(), 'a', 'b', k, 'd' FROM unnest(ARRAY['c', 'C']) AS k`
	l.run(t, `CREATE TABLE outboxevent (id text COLLATE loose PRIMARY KEY, aggregatetype text COLLATE "C", aggregateid text COLLATE "POSIX", type text COLLATE loose, payload text COLLATE loose,
			created_at timestamptz DEFAULT now())`, rows)
	l.wantImported(t, capture.Adoption{Table: "outboxevent", Preset: "debezium", Where: map[string]string{"type": "c"}}, 1)
	l.in(t, "collations", rows)
	l.tells(t, `a a:b c d`, `a a:b c d`)
}

// The owner of a table that is adopted may lose the right to use its schema: rows stay then.
func TestAnOwnerWithoutTheSchema(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	l.run(t, `CREATE SCHEMA shop`, `CREATE TABLE shop.q (id bigserial PRIMARY KEY, s text)`, `ALTER TABLE shop.q OWNER TO `+owner, `GRANT USAGE ON SCHEMA public, shop TO `+owner,
		`GRANT EXECUTE ON FUNCTION outbox_append_adopted TO `+owner)
	l.adopt(t, capture.Adoption{Table: "shop.q", Map: map[string]string{"id": "event_id", "s": "stream_id+payload"}, Type: "t", Delete: true})
	l.in(t, "USAGE", `INSERT INTO shop.q (s) VALUES ('removed')`, `REVOKE USAGE ON SCHEMA shop FROM `+owner, `INSERT INTO shop.q (s) VALUES ('kept')`)
	if n, left := l.count(t), one[string](t, l, `SELECT string_agg(s, ',') FROM shop.q`); n != 2 || left != "kept" {
		t.Errorf("%d events, want 2; left are %s", n, left)
	}
}

// JSON as deep as a column takes it is too deep for whoever reads it in a trigger: what is under its keys is as if it were not there.
func TestJSONAsDeepAsTheServerTakesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE plain (body json)`, `CREATE TABLE q (id bigserial PRIMARY KEY, body json, headers text)`, `CREATE TABLE c (LIKE q INCLUDING ALL)`)
	l.adopt(t, capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id", "body.of": "stream_id", "body": "payload", "headers": "headers"}, Type: "t"})
	l.capture(t, capture.Capture{Table: "c", Exclude: []string{"headers"}})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	most := sort.Search(1_000_000, func(n int) bool {
		_, err := l.Exec(t.Context(), `INSERT INTO plain VALUES ($1)`, deep(n+1))
		return err != nil
	})
	for _, n := range []int{most, most - 10, most - 20, most / 2} {
		for _, table := range []string{"q", "c"} {
			if _, err := l.Exec(t.Context(), `INSERT INTO `+table+` (body, headers) VALUES ($1, $2)`, deep(n), `{"a":`+deep(most+n)+`}`); err != nil {
				t.Errorf("the application's INSERT of %d levels, of %d, into %s fails: %v", n, most, table, err)
			}
		}
	}
}

// A stream keeps the partition key of its first row, among those that wait as among those that come.
func TestRowsOfAStreamHaveSeveralKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const rows = `INSERT INTO q (s, k) SELECT 's' || i % 3, 'k' || i FROM generate_series(1, 300) AS i`
	l.run(t, `CREATE TABLE q (id bigserial PRIMARY KEY, s text, k text)`, rows)
	l.wantImported(t, capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id", "s": "stream_id+payload", "k": "partition_key"}, Type: "t"}, 300)
	l.in(t, "keys", rows)
	if got := one[string](t, l, `SELECT string_agg(DISTINCT stream_id || ' ' || routing_key, ', ') || count(*) FROM events`); got != "s0 k3, s1 k1, s2 k2600" {
		t.Errorf("streams, keys and events are %s", got)
	}
}

// A partition by the table's new owner needs the function to be his: the list says so.
func TestAPartitionedTableGetsAnotherOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := l.role(t)
	l.run(t, `CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `GRANT CREATE, USAGE ON SCHEMA public TO `+other, `GRANT EXECUTE ON FUNCTION outbox_append_bytes TO `+other)
	l.capture(t, capture.Capture{Table: "p"})
	l.run(t, `ALTER TABLE p OWNER TO `+other)
	list, err := l.List(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Flaws) != 1 || !strings.Contains(list[0].Flaws[0].Problem, other+" makes and attaches no partitions") {
		t.Fatalf("it is listed as %+v, %v", list, err)
	}
	if _, err := l.Capture(t.Context(), capture.Capture{Table: "p"}, capture.Options{Replace: true, Confirmed: true}); err != nil {
		t.Fatal(err)
	}
	l.as(t, other).in(t, "partition", `CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (10)`, `INSERT INTO p VALUES (1)`)
}

// keys of a backfill, of each type that an index compares, from a number i.
var keysOfTypes = map[string]string{
	"pr": `ROW(i, 'x,"y')::pr`, "dpr": `ROW(i, 'x')::pr`, "mood": `CASE WHEN i < 300 THEN 'sad' ELSE 'glad' END::mood`, "int[]": `ARRAY[i, NULL]`, "pr[]": `ARRAY[ROW(i, 'x')::pr]`,
	"int4range": `int4range(i, i + 5)`, "numrange": `numrange(i, NULL)`, "int4multirange": `int4multirange(int4range(i, i + 2), int4range(i + 4, i + 5))`,
	"cidr": `('10.0.' || i / 250 || '.' || i % 250)::cidr`, "inet": `('10.0.' || i / 250 || '.' || i % 250)::inet`, "bpchar": `i::text || ' '`, "char(9)": `i::text`, `"char"`: `chr(65 + i % 50)::"char"`,
	"name": `('n' || i)::name`, "money": `i::text::money`, "float8": `CASE i WHEN 300 THEN 'NaN' WHEN 299 THEN 'Infinity' ELSE i / 7.0::float8 END`, "numeric": `CASE i WHEN 300 THEN 'NaN' ELSE i / 7.0 END`,
	"interval": `i * interval '1 day 2 hours'`, "timestamptz": `CASE i WHEN 300 THEN 'infinity' WHEN 299 THEN '-infinity' WHEN 298 THEN '4000-01-01 BC' ELSE now() + i * interval '1 s' END`,
	"date": `CASE i WHEN 300 THEN '0044-03-15 BC'::date ELSE current_date + i END`, "timetz": `('00:' || i / 60 || ':' || i % 60 || '+05')::timetz`, "bytea": `convert_to('\' || i, 'UTF8')`,
	"bit(9)": `i::bit(9)`, "varbit": `i::bit(9)::varbit`, "uuid": `md5(i::text)::uuid`, "oid": `i::oid`, "regclass": `'pg_class'::regclass`, "tid": `format('(%s,1)', i)::tid`,
	"jsonb": `jsonb_build_object('n', i)`, "dt": `'ü' || i`, "text": `E'a\\b''' || i`, "varchar(20)": `i::text`, "pg_lsn": `('0/' || to_hex(i))::pg_lsn`, "tsvector": `('a:' || i)::tsvector`,
	"boolean": `i > 3`, "mood[]": `ARRAY['sad'::mood, NULL]`, "oidvector": `i::text::oidvector`, "time(0)": `time '00:00' + i * interval '1 s'`,
}

func TestABackfillByKeysOfEachType(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TYPE pr AS (a int, b text)`, `CREATE TYPE mood AS ENUM ('sad', 'glad')`, `CREATE DOMAIN dpr AS pr`, `CREATE DOMAIN dt AS text COLLATE "C"`)
	for kind, expression := range keysOfTypes {
		l.run(t, `CREATE TABLE keyed (k `+kind+`, sub int, PRIMARY KEY (k, sub))`, `INSERT INTO keyed SELECT `+expression+`, i FROM generate_series(1, 300) AS i`)
		done, err := l.Capture(t.Context(), capture.Capture{Table: "keyed", Topic: kind}, capture.Options{Backfill: true})
		if err != nil || done.Imported != 300 {
			t.Errorf("%s: %d of 300 rows are told: %v", kind, done.Imported, err)
		}
		l.run(t, `DROP TABLE keyed`, `DROP FUNCTION postrider_capture_keyed`, `TRUNCATE events, outbox, outbox_stream_heads`)
	}
}
