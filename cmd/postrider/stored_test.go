package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// ownEvents is where the events of these tests are, and ownType the type of all of them.
const (
	ownEvents = "shop.history"
	ownType   = "shop.paid"
)

// ownStore gives a database events in a table of its own: one to publish, a dead and a scheduled one.
func ownStore(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`CREATE SCHEMA shop`,
		`CREATE TABLE shop.history (LIKE events INCLUDING ALL)`,
		`INSERT INTO shop.history (stream_id, stream_version, event_type, payload) SELECT s, 1, 'shop.paid', '{}' FROM unnest('{a,b,c}'::text[]) AS s`,
		`INSERT INTO outbox (global_sequence, partition_key, stream_id)
		 SELECT e.sequence, outbox_partition(e.stream_id, partition_count), e.stream_id FROM shop.history AS e, outbox_settings`,
		`UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 8, last_error = 'refused' WHERE stream_id = 'b'`,
		`UPDATE outbox SET parked = true, available_at = clock_timestamp() + interval '1 hour', scheduled_for = clock_timestamp() + interval '1 hour'
		  WHERE stream_id = 'c'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// storedProbe is a command whose answer is made of the events.
type storedProbe struct {
	args []string
	says string
}

// storedProbes are by the commands' paths, in the order in which they are tried. The table events is not there: whoever still read it would fail.
func storedProbes(worker string) []struct {
	path   string
	probes []storedProbe
} {
	mend := []string{"--type=" + ownType, "--reason=r", "--dry-run"}
	one := func(says string, args ...string) []storedProbe { return []storedProbe{{args, says}} }
	return []struct {
		path   string
		probes []storedProbe
	}{
		{"run", []storedProbe{
			{[]string{"run", "--once", "--shadow", "--http-addr=off"}, "would have published 1,"},
			{[]string{"run", "--once", "--http-addr=off"}, "published 1,"},
		}},
		{"status", one("watermark", "status")},
		{"doctor", one("shop.history has the columns", "doctor")},
		{"workers list", one("", "workers")},
		{"workers drain", one("would", "workers", "drain", worker, "--dry-run", "--reason=r")},
		{"workers undrain", one("", "workers", "undrain", worker, "--dry-run", "--reason=r")},
		{"partitions list", one("", "partitions", "list")},
		{"partitions history", one("", "partitions", "history")},
		{"partitions pause", one("would pause 4", "partitions", "pause", "--all", "--dry-run")},
		{"partitions resume", one("would resume", "partitions", "resume", "--all", "--dry-run")},
		{"partitions resize", one("would make 8 partitions of 4", "partitions", "resize", "8", "--dry-run")},
		{"messages list", one(ownType, "messages", "list")},
		{"messages show", one(ownType, "messages", "show", "2")},
		{"messages cancel", one("would cancel 1", append([]string{"messages", "cancel"}, mend...)...)},
		{"messages move", one("would move 1", append([]string{"messages", "move", "--at=2h"}, mend...)...)},
		{"dead list", one(ownType, "dead", "list")},
		{"dead causes", one("error family", "dead", "causes")},
		{"dead requeue", one("would requeue 1", append([]string{"dead", "requeue"}, mend...)...)},
		{"dead skip", one("would skip 1", append([]string{"dead", "skip"}, mend...)...)},
		{"dead discard", one("would discard 1", append([]string{"dead", "discard"}, mend...)...)},
		{"gaps detect", one("0 gaps among 1 event, 1 message", "gaps", "detect")},
		{"gaps repair", one("would queue 0 events", "gaps", "repair", "--dry-run")},
		{"replay start", []storedProbe{
			{[]string{"replay", "--type=" + ownType, "--dry-run"}, "would replay 1 event "},
			{[]string{"replay", "--type=" + ownType, "--prepare"}, "replay 1 is planned for 1 event"},
			{[]string{"replay", "--type=" + ownType, "--prepare", "--shadow-stream=REPLAYS"}, "replay 2 is planned for 1 event"},
			{[]string{"replay", "--type=" + ownType, "--prepare"}, "replay 3 is planned for 1 event"},
		}},
		{"replay resume", []storedProbe{
			{[]string{"replay", "resume", "2", "--other-shape"}, "published 1 event"},
			{[]string{"replay", "resume", "1"}, "queued 1 event"},
		}},
		{"replay list", one("type "+ownType, "replay", "list")},
		{"asyncapi", one(`"name": "`+ownType+`"`, "asyncapi")},
		{"replay cancel", one("replay 3 is cancelled", "replay", "cancel", "3")},
	}
}

// readNoEvents are the other commands, and why they need not know where events are.
func readNoEvents() map[string]string {
	return map[string]string{
		"dev": "makes events of its own, with the functions", "import": "appends with the functions",
		"migrate up": "says where they are", "migrate down": "removes everything", "migrate status": "migrations alone", "migrate print": "SQL alone",
		"partitions sync": "rows of partitions alone", "partitions trim": "the stream's records alone", "tail": "reads the stream", "verify": "makes tables of its own", "monitor": "is tried below",
		"inbox migrate": "a consumer's tables", "inbox dead": "a consumer's tables", "inbox requeue": "a consumer's tables", "inbox skip": "a consumer's tables",
		"events split": "refuses others than its own", "events list": "parts of its own", "events begin": "parts of its own", "events prune": "parts of its own",
		"capture create": "makes a trigger", "capture list": "triggers alone", "capture drop": "triggers alone", "capture export": "triggers alone", "capture apply": "triggers alone",
		"adopt create": "appends with the functions", "adopt list": "triggers alone", "adopt drop": "triggers alone",
		"types set": "the registry alone", "types list": "the registry alone", "types show": "the registry alone", "types drop": "the registry alone", "types export": "the registry alone", "types apply": "the registry alone",
		"config print": "reads no database", "healthcheck": "reads no database", "version": "reads no database", "help": "reads no database", "completion": "reads no database", "__complete": "reads no database",
	}
}

// commands are the program's, by their paths.
func commands(t *testing.T) map[string]*kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("postrider"), kong.DefaultEnvars("POSTRIDER"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*kong.Node{}
	for _, leaf := range parser.Model.Leaves(false) {
		var path []string
		for n := leaf; n != nil && n.Type == kong.CommandNode; n = n.Parent {
			path = append([]string{n.Name}, path...)
		}
		found[strings.Join(path, " ")] = leaf
	}
	return found
}

// No command has to be told where the events are, and none is: the database says so. What the database says is right for every command, as the
// table events is gone.
func TestEveryCommandReadsTheStoredEvents(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	ownStore(t, c.Pool)
	if _, err := c.NATS.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}); err != nil {
		t.Fatal(err)
	}
	database := "--database-url=" + c.DatabaseURL
	if code, stdout, stderr := call(t, "migrate", "up", database, "--events-relation="+ownEvents); code != exitOK || !strings.HasSuffix(stdout, " and events in "+ownEvents+"\n") {
		t.Fatalf("status %d: %s%s", code, stdout, stderr)
	}
	if _, err := c.Pool.Exec(t.Context(), `ALTER TABLE events RENAME TO nobody_reads_these`); err != nil {
		t.Fatal(err)
	}
	const worker = "019a0000-0000-7000-8000-00000000000a"
	tried := map[string]bool{}
	for _, one := range storedProbes(worker) {
		tried[one.path] = true
		for _, probe := range one.probes {
			args := append(slices.Clone(probe.args), database)
			if commandTakes(t, one.path, "nats-url") {
				args = append(args, "--nats-url="+c.NATS.URL())
			}
			code, stdout, stderr := call(t, args...)
			if code != exitOK || !strings.Contains(stdout, probe.says) || strings.Contains(stdout, "event not found") {
				t.Errorf("%s: status %d, %q is wanted:\n%s%s", strings.Join(probe.args, " "), code, probe.says, stdout, stderr)
			}
		}
		if one.path == "run" { // whoever came before would share the partitions
			if _, err := c.Pool.Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until)
				VALUES ($1, 'here', 7, 'v1', clock_timestamp() + interval '1 hour')`, worker); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := &clustertest.Worker{Process: clustertest.Launch(t, "monitor", c.Environment(), "monitor", "--http-addr=127.0.0.1:0")}
	if code, body := ask(t, m, http.MethodGet, "/api/v1/messages", ""); code != http.StatusOK || strings.Count(body, ownType) != 3 {
		t.Errorf("the monitor answers %d: %s", code, body)
	}
	for path, command := range commands(t) {
		if why := readNoEvents()[path]; tried[path] == (why != "") {
			t.Errorf("%q is neither tried nor known to read no events, or both: %q", path, why)
		}
		told := slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "events-relation" })
		if told != (path == "migrate up") {
			t.Errorf("%q takes --events-relation: %t", path, told)
		}
	}
}

// A worker reads as much as could be appended, and says what raises that where it does not read an event.
func TestAWorkerReadsWhatCouldBeAppended(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	on := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := call(t, append(args, "--database-url="+c.DatabaseURL)...)
		if code != exitOK {
			t.Fatalf("status %d: %s%s", code, stdout, stderr)
		}
		return stdout
	}
	const appends = `SELECT outbox_append_bytes('s', 't', decode(repeat('61', 9000000), 'hex'))`
	if _, err := c.Pool.Exec(t.Context(), appends); err == nil || !strings.Contains(err.Error(), "payload is 9000000 bytes, the limit is 8388608") {
		t.Errorf("it is appended: %v", err)
	}
	for _, sql := range []string{`UPDATE outbox_settings SET max_payload_bytes = 10000000`, appends, `UPDATE outbox_settings SET max_payload_bytes = 1`} {
		if _, err := c.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"run", "--once", "--http-addr=off", "--compress=zstd", "--nats-url=" + c.NATS.URL()}
	if text := on(run...); !strings.Contains(text, "published 0, skipped 0, failed 1") {
		t.Errorf("the worker says %s", text)
	}
	if text := on("messages", "show", "1"); !strings.Contains(text, "the relay reads at most 8388608 (outbox_settings.max_payload_bytes raises it)") {
		t.Errorf("the message says %s", text)
	}
	if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox_settings SET max_payload_bytes = 10000000`); err != nil {
		t.Fatal(err)
	}
	on("dead", "requeue", "1")
	if text := on(run...); !strings.Contains(text, "published 1,") {
		t.Errorf("the worker says %s", text)
	}
}

func commandTakes(t *testing.T, path, flag string) bool {
	t.Helper()
	command := commands(t)[path]
	return command != nil && slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == flag })
}

// What control subjects begin with is stored before the first worker starts; later they would look for its records in vain.
func TestTheControlPrefixIsStoredBeforeTheFirstWorker(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, address)
	up := func(more ...string) []string {
		return append([]string{"migrate", "up", "--json", "--database-url=" + address}, more...)
	}
	stored := func(want string, more ...string) {
		t.Helper()
		if code, stdout, stderr := call(t, up(more...)...); code != exitOK || !strings.Contains(stdout, `"control_prefix":"`+want+`"`) {
			t.Errorf("%q is not stored: status %d: %s%s", want, code, stdout, stderr)
		}
	}
	stored("outbox.fence")
	for _, prefix := range []string{"a..b", "a.>", "a b", strings.Repeat("a", 101)} {
		complaint{up("--control-prefix=" + prefix), exitRefused, []string{"--control-prefix", prefix}}.check(t)
	}
	stored("shop.fence", "--control-prefix=shop.fence")
	for _, used := range []string{
		`INSERT INTO outbox_workers (worker_id, heartbeat_until) VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')`,
		`UPDATE outbox_workers SET heartbeat_until = clock_timestamp(); UPDATE outbox_partitions SET lease_epoch = 1 WHERE partition_key = 3`,
		`DELETE FROM outbox_partitions WHERE partition_key = 3; INSERT INTO outbox_former_partitions (lease_epoch, fence_sequence, stream_sequence, partition_key) VALUES (1, 0, 0, 3)`,
	} {
		if _, err := pool.Exec(t.Context(), used); err != nil {
			t.Fatal(err)
		}
		complaint{up("--control-prefix=other"), exitRefused, []string{"--control-prefix", "under shop.fence", "before the first worker"}}.check(t)
		stored("shop.fence", "--control-prefix=shop.fence")
	}
	stored("shop.fence")
}

// Where the events are is stored once, and changes only where that relation exists and no worker lives.
func TestTheEventsRelationIsStoredOnce(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, address)
	ownStore(t, pool)
	up := func(more ...string) []string {
		return append([]string{"migrate", "up", "--database-url=" + address}, more...)
	}
	stored := func(want string) {
		t.Helper()
		var got string
		if err := pool.QueryRow(context.WithoutCancel(t.Context()), `SELECT events_relation FROM outbox_settings`).Scan(&got); err != nil || got != want {
			t.Errorf("%q is stored, not %q: %v", got, want, err)
		}
	}
	stored("events")
	complaint{up("--events-relation=nothing"), exitRefused, []string{"--events-relation", `"public"."nothing" does not exist`, "read from events"}}.check(t)
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, heartbeat_until) VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')`); err != nil {
		t.Fatal(err)
	}
	complaint{up("--events-relation=" + ownEvents), exitRefused, []string{"--events-relation", "a worker is living", "go on with events from events,", "stop"}}.check(t)
	stored("events")
	if code, _, stderr := call(t, up("--events-relation=events")...); code != exitOK {
		t.Errorf("what is stored is refused: %s", stderr)
	}
	// It died before the clock stepped back.
	if _, err := pool.Exec(t.Context(), `UPDATE outbox_workers SET heartbeat_ttl = '300 ms'`); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, up("--events-relation="+ownEvents)...); code != exitOK {
		t.Errorf("it is not stored: %s", stderr)
	}
	if code, stdout, stderr := call(t, up("--json")...); code != exitOK || !strings.Contains(stdout, `"events_relation":"`+ownEvents+`"`) {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	stored(ownEvents)
}
