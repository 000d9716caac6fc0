package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
	"github.com/postrider/postrider/outbox/schema"
)

// A row has one text, whatever the session that writes it has set: values of each type, and a key of each that can be one.
func TestASessionsSettingsDoNotChangeAnyType(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TYPE mood AS ENUM ('sad', 'glad')`, `CREATE DOMAIN posint AS int CHECK (VALUE > 0)`, `CREATE TYPE pair AS (at timestamptz, of interval)`,
		`CREATE DOMAIN since AS timestamptz`, `CREATE SCHEMA ext`)
	values := map[string]string{
		"money": `'1234.56'`, "interval": `'1 year 2 mons -3 days 04:05:06.7'`, "date": `'2026-02-01'`, "timestamp": `'2026-02-01 03:04:05'`,
		"timestamptz": `'2026-02-01 03:04:05+05:45'`, "timetz": `'03:04:05+02'`, "time": `'03:04:05.123456'`, "bytea": `'\x00ff41'`, "float8": `0.1::float8 + 0.2::float8`,
		"float4": `1.1`, "numeric": `'NaN'`, "bit(3)": `B'101'`, "varbit": `B'10'`, "xml": `'<a>é</a>'`, "inet": `'10.0.0.1/8'`, "macaddr": `'08:00:2b:01:02:03'`,
		"tsvector": `'a:1 b'`, "tstzrange": `'[2026-02-01 03:04:05+05, infinity)'`, "daterange": `'[2026-02-01, 2026-02-03)'`, "int4range": `'[1,5]'`,
		"tstzmultirange": `'{[2026-02-01 03:04:05+05, infinity)}'`, "mood": `'glad'`, "posint": `7`, "since": `'infinity'`, "pair": `ROW('2026-02-01 03:04:05+05', '1 day')`,
		"regclass": `'pg_class'`, "regtype": `'timestamptz'`, "uuid": `md5('x')::uuid`, "jsonb": `'{"n": 1.50}'`, "json": `'{"n" : 1.50}'`, "point": `'(0.1, 0.2)'`, `"char"`: `'x'`,
		"pg_lsn": `'1/2'`, "money[]": `'{1.5,-2}'`, "interval[]": `'{1 day}'`, "mood[]": `'{sad,NULL}'`, "pair[]": `ARRAY[ROW('2026-02-01 03:04:05+05', '1 day')]::pair[]`, "since[]": `'{2026-02-01 03:04:05+05}'`,
		"bytea[]": `ARRAY['\x00ff'::bytea]`,
	}
	for kind, value := range map[string]string{"citext": `'Ab'`, "hstore": `'a=>1, b=>NULL'`, "ltree": `'a.b'`} {
		if _, err := l.Exec(t.Context(), `CREATE EXTENSION `+kind+` SCHEMA ext`); err != nil {
			t.Logf("%s: %v", kind, err)
			continue
		}
		values["ext."+kind], values["ext."+kind+"[]"] = value, `ARRAY[`+value+`::ext.`+kind+`]`
	}
	settings := []string{
		`lc_monetary = 'de_DE.UTF-8'`, `lc_monetary = 'en_US.UTF-8'`, `intervalstyle = 'sql_standard'`, `datestyle = 'German, DMY'`, `bytea_output = 'escape'`, `extra_float_digits = -15`,
		`timezone = 'Asia/Kathmandu'`, `quote_all_identifiers = on`, `search_path = ''`, `xmlbinary = hex`, `xmloption = document`, `array_nulls = off`,
		`standard_conforming_strings = off`, `backslash_quote = on`, `plan_cache_mode = force_custom_plan`, `default_transaction_isolation = 'serializable'`, `client_encoding = 'LATIN1'`,
		`plpgsql.extra_errors = 'all'`, `row_security = off`, `transform_null_equals = on`, `check_function_bodies = off`,
	}
	for kind, value := range values {
		name := "t_" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, kind)
		columns := `(id int GENERATED ALWAYS AS IDENTITY, gone int, k ` + kind + `, v ` + kind + `, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)`
		l.run(t, `CREATE TABLE `+name+` `+columns, `ALTER TABLE `+name+` DROP COLUMN gone, ALTER k SET NOT NULL`, `CREATE TABLE x`+name+` AS SELECT (`+value+`)::`+kind+` AS v`)
		l.capture(t, capture.Capture{Table: name, Key: []string{"k"}, Topic: name, Type: "x", Exclude: []string{"id"}})
		for _, setting := range append([]string{`work_mem = '4MB'`}, settings...) {
			conn, err := l.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `SET `+setting); err != nil {
				t.Logf("%s: %v", setting, err)
			} else if _, err := conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO public.%s (k, v, n) SELECT v, v, 1 FROM public.x%[1]s`, name)); err != nil {
				t.Errorf("%s, SET %s: the application's INSERT fails: %v", kind, setting, err)
			}
			if _, err := conn.Exec(t.Context(), `RESET ALL`); err != nil {
				t.Fatal(err)
			}
			conn.Release()
		}
	}
	if got := one[string](t, l, `SELECT coalesce(string_agg(format('%s: %s', topic, texts), E'\n'), '') FROM (
			SELECT topic, array_agg(DISTINCT stream_id || ' ' || convert_from(payload, 'UTF8')) AS texts FROM events GROUP BY topic) AS e WHERE cardinality(texts) <> 1`); got != "" {
		t.Errorf("rows have several texts:\n%s", got)
	}
	if n := one[int](t, l, `SELECT count(DISTINCT topic) FROM events`); n != len(values) {
		t.Errorf("%d types were told, want %d", n, len(values))
	}
	t.Logf("%s", one[string](t, l, `SELECT string_agg(DISTINCT convert_from(payload, 'UTF8'), E'\n') FROM events`))
}

// A function that another trigger calls, too, is not dropped, and that says which trigger it is.
func TestAFunctionThatIsSharedStays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE a (id int PRIMARY KEY)`, `CREATE TABLE b (id int PRIMARY KEY)`)
	l.capture(t, capture.Capture{Table: "a"})
	l.run(t, `CREATE TRIGGER other AFTER INSERT ON b FOR EACH ROW EXECUTE FUNCTION postrider_capture_a()`)
	_, err := l.Drop(t.Context(), capture.Captured, "a", capture.Options{})
	wantCode(t, err, "2BP01")
	if err == nil || !strings.Contains(err.Error(), "trigger other on table b") {
		t.Errorf("it says %v", err)
	}
	l.run(t, `DROP TRIGGER other ON b`)
	if _, err := l.Drop(t.Context(), capture.Captured, "a", capture.Options{}); err != nil {
		t.Error(err)
	}
}

// The tables of every outbox are refused, also those of another one.
func TestAnotherOutboxIsNotCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	migrator, err := schema.New(schema.Config{DatabaseURL: l.url, Schema: "other", Partitions: 4, OthersMayCreate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"other.events", "other.outbox_ready", "other.outbox_settings"} {
		_, err := l.Capture(t.Context(), capture.Capture{Table: table}, capture.Options{DryRun: true})
		wantRefused(t, err, "append for ever")
	}
}
