package deployment_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// serverLog keeps what a server prints about overloads that ran, or that stood in the way of an aggregate.
type serverLog struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]bool
}

func (l *serverLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *serverLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); strings.Contains(text, "planted overload") || strings.Contains(text, "is not an aggregate function") {
			l.mu.Lock()
			l.lines[text] = true
			l.mu.Unlock()
		}
		return true
	})
	return nil
}

// logged is what wait has the server print.
const logged = "no planted overload"

// wait returns when everything that the server has printed by now was read: its log comes through a pipe.
func (l *serverLog) wait(t *testing.T, address string) {
	t.Helper()
	mark := logged + " " + uuid.NewString()
	if err := statement(t, address, `SELECT '`+mark+`'::int`); err == nil {
		t.Fatal("a text is a number")
	}
	clustertest.Until(t, "the server's log has arrived", func(context.Context) (bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		arrived := false
		for line := range l.lines {
			arrived = arrived || strings.Contains(line, mark)
		}
		return arrived, nil
	}, nil)
}

func (l *serverLog) ran() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for line := range l.lines {
		if !strings.Contains(line, logged) { // the statement is printed behind its error
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return list
}

// Everybody may create in the schemas that every session has in its path, and a producer has planted an overload of every
// function that the program's SQL calls, and of its operators, each a better match than the original. None of them runs:
// not for the roles script, the migrations, the producers, a worker, an operator or an inbox.
func TestNoPlantedOverloadRuns(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	log := &serverLog{Handler: slog.DiscardHandler, lines: map[string]bool{}}
	r := roles{superuser: pgtest.Server(t, localpg.Config{Logger: slog.New(log)}).URL(), schema: "shop"}
	r.script(t)
	for _, name := range []string{"migrator", "producer", "worker", "monitor", "operator", "consumer"} {
		mustStatement(t, r.superuser, fmt.Sprintf(`ALTER ROLE postrider_%s LOGIN PASSWORD 'secret'`, name))
	}
	mustStatement(t, r.superuser, `GRANT CREATE ON SCHEMA public, shop TO PUBLIC`)
	mustStatement(t, r.superuser, `ALTER DATABASE postgres SET search_path = shop, public`)
	overloads := plantedSQL(t, r)
	for _, schema := range []string{"public", "shop"} {
		mustStatement(t, r.url(t, "producer"), "SET search_path = "+schema+";"+overloads)
	}
	mustFail(t, r)
	log.wait(t, r.superuser)
	log.mu.Lock()
	clear(log.lines)
	log.mu.Unlock()

	r.script(t)
	mustPostrider(t, r.environment(t, "migrator"), "migrate", "up", "--others-may-create", "--partitions=4", "--inbox")
	r.script(t)
	r.script(t)
	appendInAllForms(t, r)
	receive(t, r)
	mustPostrider(t, r.environment(t, "migrator"), "migrate", "down", "--yes", "--force")
	mustPostrider(t, r.environment(t, "migrator"), "migrate", "up", "--others-may-create", "--partitions=4")
	r.script(t)
	rolesSuffice(t, r)
	log.wait(t, r.superuser)
	for _, line := range log.ran() {
		t.Error(line)
	}
}

// mustFail shows that what is planted would run.
func mustFail(t *testing.T, r roles) {
	t.Helper()
	for _, sql := range []string{
		`SELECT cardinality(ARRAY['a'])`, `SELECT format('%s', 'a'::text)`, `SELECT * FROM unnest(ARRAY[1::bigint])`, `SELECT 1 || 'a'::text`,
	} {
		if err := statement(t, r.superuser, sql); err == nil || !strings.Contains(err.Error(), "planted overload") {
			t.Errorf("%s: %v, want it to be intercepted", sql, err)
		}
	}
}

// checkedSchema has a keyword of each kind that looks at something.
const checkedSchema = `{"type": "object", "required": [], "additionalProperties": {"enum": [1, {}]}, "properties": {
	"a/b": {"type": "string", "pattern": "^[a-z]+$", "minLength": 1, "maxLength": 9}, "n": {"type": ["number", "null"], "minimum": 1, "maximum": 2},
	"l": {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1, "maxItems": 3}, "o": {"additionalProperties": false}},
	"$defs": {"n": {"type": "integer", "minimum": 1}}}`

// appendInAllForms appends as a producer whose session has the planted schemas in its path.
func appendInAllForms(t *testing.T, r roles) {
	t.Helper()
	mustStatement(t, r.url(t, "operator"), `INSERT INTO shop.outbox_types (event_type, json_schema, checked) VALUES ('checked', '`+checkedSchema+`', true)`)
	for _, sql := range []string{
		`SELECT shop.outbox_append('a', 't', '{}', metadata => '{"correlation_id": "x", "headers": {"A": "b"}}', dedupe_key => 'k', partition_key => 'p')`,
		`SELECT shop.outbox_append('a', 't', '{}', dedupe_key => 'k')`,
		`SELECT shop.outbox_append('a', 't', '{}', expected_version => 1, available_at => '2100-01-01')`,
		`SELECT shop.outbox_append_bytes('a', 't', '\x00', tenant_id => 'x', publish => false)`,
		`SELECT shop.outbox_append_one('a', 'checked', '{"a/b": "x", "n": 1.5, "l": [1, 2], "o": {}}', dedupe_key => 'm')`,
		`SELECT shop.outbox_append_one_bytes('a', 't', '\x00', dedupe_key => 'o')`,
		`SELECT shop.outbox_append_batch('{a,b}', '{checked,checked}', ARRAY['{"n": 2}', '{}']::bytea[])`,
		`SELECT shop.outbox_append_batch('{a,b,b}', '{t,t,t}', '{x,x,x}', dedupe_keys => '{k,l,l}', topics => '{default,x,x}')`,
		`BEGIN; SELECT shop.outbox_without_enqueue(); SELECT shop.outbox_append('a', 't', '{}');
			SELECT shop.outbox_append_batch('{a,b}', '{t,t}', '{x,x}'); COMMIT`,
		`SELECT shop.outbox_append_adopted('t', n, NULL, E' s ', 't', NULL, 'x', '{"headers": {"a b": [1], "Nats-X": "\\n"}, "traceparent": 1}', false, '', 'k', 'infinity') FROM (VALUES ('1'), ('1'), ('1')) AS v (n)`,
		`SELECT shop.outbox_partition('key', 64), shop.outbox_hash_partition(-5, 64)`,
	} {
		mustStatement(t, r.url(t, "producer"), sql)
	}
	for _, sql := range []string{
		`SELECT shop.outbox_append('a', 't', '{}', expected_version => 77)`, `SELECT shop.outbox_append('', 't', '{}', metadata => '{"headers": {"Nats-X": "b"}}')`,
		`SELECT shop.outbox_append_batch('{a,b}', '{t,}', '{x,x}', expected_versions => '{1,2}')`,
		`SELECT shop.outbox_append('a', 'checked', '{"a/b": "1"}')`, `SELECT shop.outbox_append('a', 'checked', '{"n": 3}')`,
		`SELECT shop.outbox_append('a', 'checked', '{"l": [0]}')`, `SELECT shop.outbox_append('a', 'checked', '{"o": {"p/": 1}}')`,
		`SELECT shop.outbox_append_bytes('a', 'checked', '\xff')`, `SELECT shop.outbox_append_batch('{a,b}', '{t,checked}', '{x,x}')`,
	} {
		if err := statement(t, r.url(t, "producer"), sql); err == nil {
			t.Errorf("%s was accepted", sql)
		}
	}
	pool := pgtest.Pool(t, r.url(t, "producer"))
	producer, err := outbox.New(outbox.Config{Schema: r.schema})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, 100} {
		var events []outbox.Event
		for i := range n {
			events = append(events, outbox.Event{StreamID: fmt.Sprint("go-", i), Type: "t", DedupeKey: fmt.Sprint(n, "-", i)})
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := producer.AppendTx(t.Context(), tx, events...)
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// receive has an inbox apply, repeat, park, try again and answer calls, in sessions with the planted schemas in their path.
func receive(t *testing.T, r roles) {
	t.Helper()
	pool := pgtest.Pool(t, r.url(t, "consumer"))
	box, err := inbox.New(pool, inbox.Config{Name: "billing", Schema: r.schema})
	if err != nil {
		t.Fatal(err)
	}
	fail := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, os.ErrInvalid }
	apply := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return []byte("done"), nil }
	for n, handle := range []inbox.Handler{apply, apply, fail, apply} {
		m := message.Message{EventID: uuid.New(), Stream: "s", Version: int64(n + 1), Type: "t", Sequence: int64(n + 1)}
		for range 2 {
			if _, err := box.Process(t.Context(), m, handle); err != nil {
				t.Errorf("process: %v", err)
			}
		}
	}
	callOnce(t, pool, box, r.schema)
	inOtherLanguages(t, r)
	for _, command := range [][]string{{"dead", "--consumer=billing"}, {"requeue", "--consumer=billing", "--all"}} {
		mustPostrider(t, r.environment(t, "consumer"), append([]string{"inbox"}, command...)...)
	}
}

// inOtherLanguages is receive with the SQL functions, which are the consumer's alone.
func inOtherLanguages(t *testing.T, r roles) {
	t.Helper()
	headers := func(stream string, version int) string {
		return fmt.Sprintf(`{"Outbox-Event-Id": "%s", "Outbox-Stream": "%s", "Outbox-Stream-Version": "%d", "Outbox-Type": "t",
			"Outbox-Sequence": "1", "Outbox-Partition": "1"}`, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, stream, version)), stream, version)
	}
	begin := func(stream string, version int) string {
		return fmt.Sprintf(`SELECT inbox_begin('any', 's', 1, '%s', 'x')`, headers(stream, version))
	}
	for _, sql := range []string{
		begin("a", 1), begin("a", 1), fmt.Sprintf(`SELECT inbox_done('any', '%s', 'result')`, headers("a", 1)), begin("a", 3), begin("a", 2),
		fmt.Sprintf(`SELECT inbox_failed('any', 's', 1, '%s', 'x', 'broken', base => '0')`, headers("b", 1)), begin("b", 2),
		fmt.Sprintf(`SELECT inbox_begin('any', n.subject, n.stream_sequence, n.headers, n.payload, n.parked)
			FROM inbox_next('any', '%s') AS n`, uuid.New()),
		`SELECT inbox_begin('any', 's', 1, '{}', 'x')`,
	} {
		path := "SET search_path = " + r.schema + ", public; "
		mustStatement(t, r.url(t, "consumer"), path+sql)
		if err := statement(t, r.url(t, "producer"), path+sql); err == nil || !strings.Contains(err.Error(), "permission denied for function") {
			t.Errorf("a producer that says %s: %v", sql, err)
		}
	}
}

var called = regexp.MustCompile(`\b([a-z_][a-z0-9_]*)\s?\(`)
