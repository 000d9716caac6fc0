package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A stream has one partition key, whichever way its events come in: it would lose its order otherwise.
func TestAStreamKeepsItsKey(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 64))
	kept := func(stream, want string) {
		t.Helper()
		const sql = `SELECT string_agg(DISTINCT coalesce(e.routing_key, e.stream_id) || ' ' || o.partition_key, ',') FROM events AS e JOIN outbox AS o ON o.global_sequence = e.sequence WHERE e.stream_id = $1`
		at := one[int](t, conn, `SELECT outbox_partition($1, 64)`, want)
		if got := one[string](t, conn, sql, stream); got != fmt.Sprintf("%s %d", want, at) {
			t.Errorf("%s has the keys and partitions %s, want %s %d", stream, got, want, at)
		}
	}
	for first, key := range map[string]string{"": "plain", "k": "k"} {
		stream := "s" + first
		if first == "" {
			key = stream
		}
		run(t, conn, fmt.Sprintf(`SELECT outbox_append('%s', 't', '{}', partition_key => nullif('%s', ''))`, stream, first))
		for _, sql := range []string{
			`SELECT outbox_append('{s}', 't', '{}')`, `SELECT outbox_append('{s}', 't', '{}', partition_key => '{k}')`,
			`SELECT outbox_append_batch('{{s}}', '{t}', '{x}', routing_hashes => ARRAY[outbox_xxhash64('{s}')])`,
			`SELECT outbox_append_batch('{{s},{s},other}', '{t,t,t}', '{x,x,x}', partition_keys => '{NULL,{k}}', routing_hashes => ARRAY[outbox_xxhash64('{s}')])`,
		} {
			run(t, conn, strings.NewReplacer("{{s}", "{"+stream, "{s}", stream, "{k}", key).Replace(sql))
		}
		for _, sql := range []string{
			`SELECT outbox_append('{s}', 't', '{}', partition_key => 'elsewhere')`, `SELECT outbox_append_one('{s}', 't', '{}', partition_key => 'elsewhere')`,
			`SELECT outbox_append_bytes('{s}', 't', '', partition_key => 'elsewhere')`, `SELECT outbox_append_one_bytes('{s}', 't', '', partition_key => 'elsewhere')`, `SELECT outbox_append_batch('{{s}}', '{t}', '{x}', partition_keys => '{elsewhere}')`,
			`SELECT outbox_append_batch('{new,{s}}', '{t,t}', '{x,x}', partition_keys => '{any,elsewhere}')`,
		} {
			refused(t, conn, strings.NewReplacer("{{s}", "{"+stream, "{new,{s}", "{new,"+stream, "{s}", stream).Replace(sql), "22023")
		}
		kept(stream, key)
	}
	run(t, conn, `SELECT outbox_append_batch('{b,b,b}', '{t,t,t}', '{x,x,x}', partition_keys => '{first}')`)
	kept("b", "first")
	refused(t, conn, `SELECT outbox_append_batch('{c,c}', '{t,t}', '{x,x}', partition_keys => '{one,two}')`, "22023")

	// A trigger does not fail its table's writers.
	run(t, conn, `CREATE TABLE box (key text); CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM outbox_append(''boxed'', ''t'', ''{}'', partition_key => NEW.key); RETURN NULL; END';
		CREATE TRIGGER tell AFTER INSERT ON box FOR EACH ROW EXECUTE FUNCTION tell(); INSERT INTO box VALUES ('one'), ('two'), (NULL)`)
	kept("boxed", "one")
}

// What a check costs is bounded: by the payload's size and depth, and by the repetitions of patterns.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	setType(t, conn, "deep", `{"$ref":"#/$defs/n","$defs":{"n":{"type":["array","string"],"items":{"$ref":"#/$defs/n"}}}}`, true)
	nested := func(depth, size int) string {
		return strings.Repeat("[", depth) + `"` + strings.Repeat("z", size) + `"` + strings.Repeat("]", depth)
	}
	run(t, conn, `SELECT outbox_append_bytes('s', 'deep', $1)`, []byte(nested(64, 900_000)))
	for name, c := range map[string]struct {
		payload, says string
	}{"depth": {nested(65, 1), "64 levels"}, "size": {nested(1, 1<<20), "1048576 are checked at most"}} {
		for _, sql := range []string{`SELECT outbox_append_bytes('s', 'deep', $1)`, `SELECT outbox_append_batch('{s,s}', '{deep,deep}', ARRAY[$1::bytea, $1::bytea])`} {
			if _, err := conn.Exec(t.Context(), sql, []byte(c.payload)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s: %v", name, sql, err)
			}
		}
	}
	for pattern, fits := range map[string]bool{`^[a-z]{1,128}@[a-z]{1,128}$`: true, `(a?){255}(a?){255}(b?){255}a{255}`: false, `a{200}b{57,}`: false} {
		got := one[*string](t, conn, `SELECT outbox_schema_problem(jsonb_build_object('pattern', $1::text))`, pattern)
		if fits != (got == nil) || !fits && !strings.Contains(*got, "256") {
			t.Errorf("of %s it says %v", pattern, got)
		}
	}
}
