package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// extremes are what a column of a type may hold and nobody expects, as SQL. NULL comes besides.
var extremes = map[string][]string{
	"timestamp with time zone": {`'infinity'`, `'-infinity'`, `'4713-01-01 00:00Z BC'`, `'294276-12-31 23:59:59Z'`, `'10000-01-01 00:00Z'`, `'0001-01-01 00:00Z'`},
	"bigint":                   {`9223372036854775807`, `-9223372036854775808`},
	"integer":                  {`2147483647`, `-2147483648`},
	"double precision":         {`'infinity'`, `'-infinity'`, `'nan'`, `1e308`},
	"text":                     {`''`, `E'\u202e<b>\x1b[31m\u0085'`, `repeat('x', 900)`},
	"bytea":                    {`''`, `'\xff00'`},
	"jsonb":                    {`'{}'`},
	"uuid":                     {`'00000000-0000-0000-0000-000000000000'`},
}

// keptWhole are columns that say how many rows there are to read, not what they hold: none but workers and operators write them.
var keptWhole = []string{"first_sequence", "last_sequence", "sequences", "partition_key", "global_sequence", "sequence", "partition_keys", "parked", "stream_version", "id"}

// aRow makes one usual row of each table for the number $1.
var aRow = map[string]string{
	"events": `INSERT INTO events (sequence, stream_version, stream_id, event_type, payload) OVERRIDING SYSTEM VALUE VALUES ($1, 1, 's-' || $1, 't', '{}')`,
	"outbox": `INSERT INTO outbox (global_sequence, partition_key, parked, stream_id, dead_at, attempts, last_error, failures)
		VALUES ($1, $1 % 4, true, 's-' || $1, clock_timestamp(), 3, 'it failed', '[{"at": "2026-01-01T00:00:00Z", "class": "c", "text": "t"}]')`,
	"outbox_deliveries": `INSERT INTO outbox_deliveries (id, lease_epoch, first_sequence, last_sequence, first_stream_sequence, last_stream_sequence, message_count, partition_key)
		OVERRIDING SYSTEM VALUE VALUES ($1, 1, $1 + 500000, $1 + 500000, $1, $1, 1, $1 % 4)`,
	"outbox_workers": `INSERT INTO outbox_workers (worker_id, pid, hostname, version, heartbeat_until)
		VALUES (lpad($1::text, 32, '0')::uuid, 1, 'h', 'v', clock_timestamp() + interval '1 hour')`,
	"outbox_audit":     `INSERT INTO outbox_audit (id, actor, action) OVERRIDING SYSTEM VALUE VALUES ($1, 'a', 'requeue')`,
	"outbox_ownership": `INSERT INTO outbox_ownership (id, kind, partition_keys, lease_epochs, worker_id) OVERRIDING SYSTEM VALUE VALUES ($1, 'taken', '{0}', '{1}', gen_random_uuid())`,
	"outbox_replays": `INSERT INTO outbox_replays (id, last_sequence, generation, kind, destination, state, actor, selection)
		OVERRIDING SYSTEM VALUE VALUES ($1, 1, 100, 'range', 'live', 'done', 'a', '{}')`,
	"outbox_throughput":        `INSERT INTO outbox_throughput (minute, partition_key) VALUES (date_trunc('minute', clock_timestamp()) - ($1 % 50) * interval '1 minute', $1)`,
	"outbox_types":             `INSERT INTO outbox_types (event_type, json_schema) VALUES ('type-' || $1, '{}')`,
	"outbox_dedupe_keys":       `INSERT INTO outbox_dedupe_keys (topic, dedupe_key) VALUES ('t', 'k-' || $1)`,
	"outbox_partitions":        `SELECT $1::bigint`, // those that are there
	"outbox_watermark":         `SELECT $1::bigint`,
	"outbox_former_partitions": `INSERT INTO outbox_former_partitions (partition_key, lease_epoch, fence_sequence, stream_sequence) VALUES ($1, 1, 1, 1)`,
	"outbox_stream_heads":      `INSERT INTO outbox_stream_heads (stream_id, stream_version) VALUES ('gone-' || $1, 1)`,
}

// where finds the row of number n again.
var where = map[string]string{
	"events": `sequence = $1`, "outbox": `global_sequence = $1`, "outbox_workers": `worker_id = lpad($1::text, 32, '0')::uuid`, "outbox_throughput": `partition_key = $1`,
	"outbox_types": `event_type = 'type-' || $1`, "outbox_dedupe_keys": `dedupe_key = 'k-' || $1`, "outbox_partitions": `partition_key = $1 % 4`, "outbox_watermark": `id`,
	"outbox_former_partitions": `partition_key = $1`, "outbox_stream_heads": `stream_id = 'gone-' || $1`,
}

// fillWithExtremes makes a row for each column of each table and each extreme of it, as far as the table takes it. It returns how many.
func fillWithExtremes(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = ANY ($1) ORDER BY table_name = 'outbox_watermark', table_name, ordinal_position`, slices.Collect(keys(aRow)))
	if err != nil {
		t.Fatal(err)
	}
	type column struct {
		Table, Name, Type string
		Nullable          bool
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		if slices.Contains(keptWhole, c.Name) {
			continue
		}
		values := extremes[c.Type]
		if c.Nullable {
			values = append(slices.Clone(values), `NULL`)
		}
		for _, value := range values {
			n++
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), strings.ReplaceAll(aRow[c.Table], "$1", fmt.Sprint(n))); err != nil {
					t.Fatalf("%s: %v", c.Table, err)
				}
				test := where[c.Table]
				if test == "" {
					test = `id = $1`
				}
				_, err := tx.Exec(t.Context(), strings.ReplaceAll(fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s`, c.Table, c.Name, value, test), "$1", fmt.Sprint(n)))
				return err
			})
			if err != nil && !strings.Contains(err.Error(), "constraint") {
				t.Errorf("%s.%s = %s: %v", c.Table, c.Name, value, err)
			}
		}
	}
	return n
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// whatever rows hold, every page, every route and every command that reads answers.
func TestExtremeRowsAreShown(t *testing.T) {
	t.Parallel()
	database := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, database)
	n := fillWithExtremes(t, pool)
	t.Logf("%d rows", n)
	monitor := serveMonitor(t, database)
	for _, file := range []string{"../../ui/pages/pages.go", "../../ui/api/route.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		routes := regexp.MustCompile(`(?:"GET |\{get, ")(/[^"]*)"`).FindAllStringSubmatch(string(source), -1)
		if len(routes) < 10 {
			t.Fatalf("%s has %d routes", file, len(routes))
		}
		for _, route := range routes {
			for _, address := range addresses(route[1], n) {
				get(t, monitor+address, strings.HasPrefix(address, "/api/"))
			}
		}
	}
	get(t, monitor+"/metrics", false)
	readExtremes(t, database, n)
}

// addresses are those of a route: of each message, and lists to their ends.
func addresses(route string, n int) (list []string) {
	route = strings.TrimSuffix(route, "{$}")
	switch {
	case strings.HasSuffix(route, "/events"):
		return nil // a stream of what /summary has
	case strings.Contains(route, "{message}"):
		for i := 1; i <= n; i += 3 {
			list = append(list, strings.Replace(route, "{message}", fmt.Sprint(i), 1))
		}
		return list
	case strings.Contains(route, "{replay}"):
		return []string{strings.Replace(route, "{replay}", "1", 1)}
	case strings.Contains(route, "{worker}"):
		return []string{strings.Replace(route, "{worker}", "00000000-0000-0000-0000-000000000001", 1)}
	case strings.HasSuffix(route, "/messages"):
		for _, state := range []string{"dead", "failed", "blocked", "scheduled", "pending", "published"} {
			list = append(list, route+"?state="+state)
		}
		for i := 0; i <= n; i += 40 {
			list = append(list, fmt.Sprintf("%s?after=%d", route, i))
		}
	case route == "/streams":
		return []string{"/streams?stream=s-1"}
	}
	return append(list, strings.Replace(route, "{partition}", "1", 1))
}

func get(t *testing.T, address string, isJSON bool) {
	t.Helper()
	response, err := http.Get(address) //nolint:noctx // the test has its own end
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s: %v", address, err)
	}
	if response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusNotImplemented { // a monitor alone does not resize
		t.Errorf("%s: status %d: %.300s", address, response.StatusCode, body[max(0, len(body)-600):])
	}
	if isJSON && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && !json.Valid(body) {
		t.Errorf("%s: not JSON: %.200s", address, body)
	}
}

// serveMonitor serves the monitor until the test ends.
func serveMonitor(t *testing.T, database string) (url string) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Name("postrider"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"monitor", "--database-url=" + database, "--http-addr=127.0.0.1:0", "--http-show-payload"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- c.Monitor.serve(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)), func(url string) { listening <- url })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the monitor ended: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	select {
	case url = <-listening:
	case err := <-done:
		done <- err
		t.Fatalf("the monitor did not begin: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the monitor does not begin")
	}
	return strings.TrimSuffix(url, "/")
}

// readExtremes runs each command that reads.
func readExtremes(t *testing.T, database string, n int) {
	t.Helper()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	middle := fmt.Sprint(n / 2)
	reads := map[string][][]string{
		"status": {{}}, "workers list": {{}}, "partitions list": {{}}, "partitions history": {{}}, "partitions show": {{"1"}},
		"messages list": {{"--limit=1000"}, {"--limit=1000", "--state=dead"}}, "messages show": nil, "dead list": {{"--limit=1000"}}, "dead causes": {{}},
		"replay list": {{"--limit=1000"}}, "types list": {{}}, "types show": {{"t"}}, "types export": {{}}, "capture export": {{}}, "asyncapi": {{}}, "gaps detect": {{}}, "events list": {{}}, "doctor": {{}}, "capture list": {{}}, "adopt list": {{}},
		"migrate status": {{}},
	}
	for i := 1; i <= n; i += 25 {
		reads["messages show"] = append(reads["messages show"], []string{fmt.Sprint(i)})
	}
	_ = middle
	for path, command := range commands(t) {
		for _, args := range reads[path] {
			for _, format := range [][]string{nil, {"--json"}} {
				if format != nil && !slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "json" }) {
					continue
				}
				line := slices.Concat(strings.Fields(path), args, format, []string{"--database-url=" + database})
				if commandTakes(t, path, "nats-url") {
					line = append(line, "--nats-url="+broker.URL())
				}
				code, stdout, stderr := call(t, line...)
				for _, wrong := range []string{"cannot scan", "SQLSTATE", "panic", "write JSON", "year outside"} {
					if strings.Contains(stderr+stdout, wrong) {
						t.Errorf("%s: status %d: %.600s", strings.Join(line[:len(line)-1], " "), code, stderr)
						break
					}
				}
				if strings.ContainsAny(stdout, "\x1b\u202e\u0085") {
					t.Errorf("%s prints what steers a terminal: %q", strings.Join(line[:len(line)-1], " "), steering(stdout))
				}
			}
		}
	}
}

// steering is the first line that holds what steers a terminal.
func steering(text string) string {
	for _, line := range strings.Split(text, "\n") {
		if strings.ContainsAny(line, "\x1b\u202e\u0085") {
			at := strings.IndexAny(line, "\x1b\u202e\u0085")
			return line[max(0, at-40):min(len(line), at+40)]
		}
	}
	return ""
}
