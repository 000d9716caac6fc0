package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// historyEvents is how many events the file in testdata holds.
const historyEvents = 11_992

// The whole thing on one machine: PostgreSQL, NATS, three workers, real events, and the built-in checker.
func TestDevExitWhenDrained(t *testing.T) { //nolint:paralleltest // fills the machine
	devDrained(t)
}

func TestDevOnThreeNodes(t *testing.T) { //nolint:paralleltest // fills the machine
	slow.Test(t)
	devDrained(t, "--nats-nodes=3")
}

// What people read is what dev says, in lines of eighty columns but for the address of the database; its log is there for who asks for it.
func TestDevSaysWhatPeopleRead(t *testing.T) { //nolint:paralleltest // fills the machine
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"tx":1,"stream":"order-7","version":1,"type":"order.placed","occurred_at":"2026-01-02T03:04:05Z","payload":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := regexp.MustCompile(`^PostgreSQL   private, up in [0-9.]+m?s
NATS         in process, 1 node
Workers      3 in this process, 64 partitions
Monitor      http://127\.0\.0\.1:\d+/
export DATABASE_URL='postgres://\S+'
export NATS_URL=nats://127\.0\.0\.1:\d+
Imported     (?s:\S+): 1 events in 1 transactions, 0 were there already, \d+ events/s
(received \d of 1\n)*
committed 1, received 1, lost 0, reordered 0, duplicates 0
\d+ events/s, latency from commit to subscriber p50 [0-9.]+ ms, p99 [0-9.]+ ms
$`)
	for level, logs := range map[string]bool{"": false, "--log-level=info": true} {
		args := []string{"dev", "--exit-when-drained", "--http-addr=127.0.0.1:0", "--import", path}
		if level != "" {
			args = append(args, level)
		}
		dev := clustertest.Launch(t, "dev", nil, args...)
		if code := dev.Exit(t); code != exitOK {
			t.Errorf("%s: it ended with %d", level, code)
		}
		if !says.MatchString(dev.Stdout()) {
			t.Errorf("%s: it says\n%s", level, dev.Stdout())
		}
		for line := range strings.Lines(dev.Stdout()) {
			if len(line) > 81 && !strings.Contains(line, "://") && !strings.Contains(line, path) {
				t.Errorf("%s: %d columns: %s", level, len(line)-1, line)
			}
		}
		for _, one := range []string{"migration applied", "acquired partitions"} {
			if strings.Contains(dev.Stderr(), one) != logs {
				t.Errorf("%s: the log is\n%s", level, dev.Stderr())
			}
		}
		if !logs && dev.Stderr() != "" {
			t.Errorf("it logs\n%s", dev.Stderr())
		}
	}
}

// A shell that points to real servers does not have dev use them: flags alone do.
func TestDevTakesNoServersFromItsShell(t *testing.T) { //nolint:paralleltest // fills the machine
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"tx":1,"stream":"order-7","version":1,"type":"order.placed","occurred_at":"2026-01-02T03:04:05Z","payload":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shells := pgtest.URL(t)
	shell := []string{
		"DATABASE_URL=" + shells, "POSTRIDER_DATABASE_URL=" + shells, "NATS_URL=nats://" + nobody, "POSTRIDER_NATS_URL=nats://" + nobody,
		"POSTRIDER_NATS_CONTEXT=/nowhere/x.json", "PGHOST=nowhere", "PGSERVICE=nowhere", "PGOPTIONS=-c default_transaction_read_only=on", "PGTARGETSESSIONATTRS=standby",
	}
	dev := clustertest.Launch(t, "dev", shell, "dev", "--exit-when-drained", "--http-addr=off", "--import", path)
	if code := dev.Exit(t); code != exitOK {
		t.Errorf("it ended with %d: %s%s", code, dev.Stdout(), dev.Stderr())
	}
	var tables int
	if err := pgtest.Pool(t, shells).QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil || tables > 0 {
		t.Errorf("%d tables in the shell's database: %v", tables, err)
	}
}

// A type that is checked from now on refuses what dev makes up: that is told, and dev goes on for who set it.
func TestDevGoesOnWhenItsEventsAreRefused(t *testing.T) {
	t.Parallel()
	dev := clustertest.Launch(t, "dev", nil, "dev", "--http-addr=off")
	address := regexp.MustCompile(`DATABASE_URL='(\S+)'(?s:.*)Generating`)
	var found []string
	clustertest.Until(t, "dev generates", func(context.Context) (bool, error) {
		found = address.FindStringSubmatch(dev.Stdout())
		return found != nil, nil
	}, nil)
	schema := filepath.Join(t.TempDir(), "paid.json")
	if err := os.WriteFile(schema, []byte(`{"type":"object","required":["amount"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "types", "set", "order.paid", "--database-url="+found[1], "--json-schema="+schema, "--check"); code != exitOK {
		t.Fatal(stderr)
	}
	pool := pgtest.Pool(t, found[1])
	count := func() (n int) {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	clustertest.Until(t, "it tells of a refusal", func(context.Context) (bool, error) {
		return strings.Contains(dev.Stdout()+dev.Stderr(), "order.paid"), nil
	}, nil)
	before := count()
	clustertest.Until(t, "it goes on with other types", func(context.Context) (bool, error) { return count() > before+10, nil }, nil)
	dev.Signal(t, syscall.SIGINT)
	if code := dev.Exit(t); code != exitOK {
		t.Errorf("it ended with %d: %s%s", code, dev.Stdout(), dev.Stderr())
	}
	if told := strings.Count(dev.Stdout()+dev.Stderr(), "order.paid"); told > 1 {
		t.Errorf("it tells %d times of one cause", told)
	}
}

// A project has dev as its environment: servers at ports that stay, no events but its own, and on standard output what a shell reads.
func TestDevIsAProjectsEnvironment(t *testing.T) { //nolint:paralleltest // fills the machine
	folder, port := t.TempDir(), freePorts(t, 3)
	for _, one := range []string{folder, filepath.Dir(folder)} { // PostgreSQL's user enters it
		if err := os.Chmod(one, 0o755); err != nil { //nolint:gosec // as said
			t.Fatal(err)
		}
	}
	exports := regexp.MustCompile(`^export DATABASE_URL='(\S+)'\nexport NATS_URL=(\S+)\n$`)
	ports := regexp.MustCompile(fmt.Sprintf(`:%d/(?s:.*):%d\n`, port, port+2))
	said := ""
	for start, args := range [][]string{{"--port=" + strconv.Itoa(port)}, nil} {
		dev := clustertest.Launch(t, "dev", nil, append([]string{"dev", "--quiet", "--data-dir=" + folder}, args...)...)
		var found []string
		clustertest.Until(t, "dev is up", func(context.Context) (bool, error) {
			found = exports.FindStringSubmatch(dev.Stdout())
			return found != nil, nil
		}, nil)
		if !ports.MatchString(dev.Stdout()) || start > 0 && dev.Stdout() != said {
			t.Errorf("start %d, with --port=%d: it says\n%s, and before\n%s", start, port, dev.Stdout(), said)
		}
		said = dev.Stdout()
		clustertest.Until(t, "dev says where its monitor is", func(context.Context) (bool, error) {
			return strings.Contains(dev.Stderr(), fmt.Sprintf("Monitor      http://127.0.0.1:%d/", port+1)), nil
		}, dev.Stderr)
		pool := pgtest.Pool(t, found[1])
		var level string
		var events int
		err := pool.QueryRow(t.Context(), `SELECT current_setting('wal_level'), (SELECT count(*) FROM events)`).Scan(&level, &events)
		if err != nil || level != "logical" || events != start {
			t.Errorf("wal_level %s, %d events: %v", level, events, err)
		}
		if _, err := pool.Exec(t.Context(), `SELECT outbox_append('order-1', 'order.placed', '{}')`); err != nil {
			t.Error(err)
		}
		pool.Close()
		dev.Signal(t, syscall.SIGINT)
		if code := dev.Exit(t); code != exitOK || dev.Stdout() != said {
			t.Errorf("it ended with %d: %s", code, dev.Stdout())
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	code, _, stderr := call(t, "dev", "--quiet", "--data-dir="+folder)
	if code != exitFailed || !strings.Contains(stderr, strconv.Itoa(port)) || !strings.Contains(stderr, "--port") || !strings.Contains(stderr, "ports.json") {
		t.Errorf("status %d: %s", code, stderr)
	}
}

// freePorts is the first of n ports in a row on which nobody listens.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for {
		first, err := loopback.FreePort(t.Context())
		for i := 1; i < n && err == nil; i++ {
			err = loopback.Probe(t.Context(), first+i)
		}
		if err == nil {
			return first
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// An event that nothing can carry is dead, not lost, and nobody waits for it without end.
func TestDevEndsBehindADeadEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	line := `{"tx":1,"stream":"order-7","version":%d,"type":"order.placed","occurred_at":"2026-01-02T03:04:05Z","payload":{"note":"%s"}}` + "\n"
	events := fmt.Sprintf(line, 1, "") + fmt.Sprintf(line, 2, strings.Repeat("x", 2<<20)) + fmt.Sprintf(line, 3, "")
	if err := os.WriteFile(path, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := clustertest.Launch(t, "dev", nil, "dev", "--exit-when-drained", "--json", "--http-addr=off", "--import", path)
	if code := dev.Exit(t); code != exitFailed {
		t.Errorf("it ended with %d", code)
	}
	var r devReport
	if err := json.Unmarshal([]byte(dev.Stdout()), &r); err != nil || r.Committed != 3 || r.Received != 1 || r.Held != 2 || r.Lost != 0 {
		t.Errorf("it reports %s: %v", dev.Stdout(), err)
	}
	if !strings.Contains(dev.Stderr(), "dead: 1 event, with 1 event behind") {
		t.Errorf("it says\n%s", dev.Stderr())
	}
}

// Who tries a resize on dev finds no fault in it: what was pending comes from another partition than it was committed to.
func TestDevOutlastsAResize(t *testing.T) { //nolint:paralleltest // fills the machine
	dev := clustertest.Launch(t, "dev", nil, "dev", "--http-addr=off", "--rate=200")
	addresses := regexp.MustCompile(`(?s)DATABASE_URL='(\S+)'.*NATS_URL=(\S+).*Generating`)
	var found []string
	clustertest.Until(t, "dev generates", func(context.Context) (bool, error) {
		found = addresses.FindStringSubmatch(dev.Stdout())
		return found != nil, nil
	}, nil)
	servers := []string{"DATABASE_URL=" + found[1], "NATS_URL=" + found[2]}
	pool := pgtest.Pool(t, found[1])
	if _, err := pool.Exec(t.Context(), `SELECT outbox_append('somebody tries psql', 't', '1')`); err != nil {
		t.Fatal(err)
	}
	moved := regexp.MustCompile(`[1-9][0-9,]* pending rows? moved`)
	for partitions, done := "16", false; !done; {
		resize := clustertest.Launch(t, "resize", servers, "partitions", "resize", partitions, "--yes", "--reason=a trial")
		if code := resize.Exit(t); code != exitOK {
			t.Fatalf("it ended with %d: %s", code, resize.Stdout())
		}
		done = moved.MatchString(resize.Stdout())
		partitions = map[string]string{"16": "64", "64": "16"}[partitions]
	}
	dev.Signal(t, syscall.SIGINT)
	if code := dev.Exit(t); code != exitOK || !strings.Contains(dev.Stdout(), "lost 0, reordered 0, duplicates 0") || strings.Contains(dev.Stdout(), "altered") {
		t.Errorf("it ended with %d, and says\n%s", code, dev.Stdout())
	}
}

// Load and checker try a cluster of workers elsewhere, tell all the time how it stands, and judge at the end.
func TestDevTriesWorkersElsewhere(t *testing.T) {
	t.Parallel()
	for _, refused := range [][]string{{"--workers=-1"}, {"--workers=0"}, {"--workers=0", "--database-url=x", "--nats-url=x", "--http-addr=:0"}} {
		if code := clustertest.Launch(t, "refused", nil, append([]string{"dev"}, refused...)...).Exit(t); code != exitRefused {
			t.Errorf("dev %s ended with %d", refused, code)
		}
	}
	c := clustertest.New(t, clustertest.Config{Flags: shortTTL(), Proxied: true})
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	servers := c.ProxiedEnvironment()
	dev := clustertest.Launch(t, "dev", nil, "dev", "--workers=0", "--rate=200",
		"--database-url="+strings.TrimPrefix(servers[0], "DATABASE_URL="), "--nats-url="+strings.TrimPrefix(servers[1], "NATS_URL="))
	stands := regexp.MustCompile(`(?m)^committed \d+, received (\d+), under way \d+, lost 0, reordered 0, duplicates 0$`)
	told := func(more int) {
		t.Helper()
		seen := len(stands.FindAllString(dev.Stdout(), -1))
		clustertest.Until(t, "dev tells how things stand", func(context.Context) (bool, error) {
			return len(stands.FindAllString(dev.Stdout(), -1)) >= seen+more, nil
		}, nil)
	}
	told(1)
	workers[1].Signal(t, syscall.SIGKILL)
	c.WaitHeld(t, workers[0])
	c.Database.Cut() // the load outlasts it
	told(2)
	dev.Signal(t, syscall.SIGTERM)
	if code := dev.Exit(t); code != exitOK || !strings.Contains(dev.Stdout(), "Workers      elsewhere, 64 partitions") {
		t.Errorf("it ended with %d, and says\n%s%s", code, dev.Stdout(), dev.Stderr())
	}
	if lines := stands.FindAllStringSubmatch(dev.Stdout(), -1); lines[len(lines)-1][1] == "0" {
		t.Errorf("it received nothing:\n%s", dev.Stdout())
	}
}

func devDrained(t *testing.T, flags ...string) {
	t.Helper()
	args := append([]string{
		"dev", "--exit-when-drained", "--json", "--http-addr=127.0.0.1:0",
		"--import", filepath.Join("..", "..", "testdata", "repo-history-12k.jsonl.gz"),
	}, flags...)
	dev := clustertest.Launch(t, "dev", nil, args...)
	if code := dev.Exit(t); code != exitOK {
		t.Errorf("it ended with %d", code)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(dev.Stdout()), &object); err != nil {
		t.Fatalf("standard output is not one JSON object: %v\n%s", err, dev.Stdout())
	}
	t.Log(dev.Stdout())
	keys := []string{
		"committed", "duplicates", "events_per_second", "held", "latency_p50_ms", "latency_p99_ms",
		"lost", "partitions", "received", "reordered", "workers",
	}
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, keys) {
		t.Errorf("keys %v, want %v", got, keys)
	}
	for key, want := range map[string]float64{
		"lost": 0, "held": 0, "reordered": 0, "duplicates": 0, "workers": 3, "partitions": 64,
		"committed": historyEvents, "received": historyEvents,
	} {
		if object[key] != want {
			t.Errorf("%s is %v, want %v", key, object[key], want)
		}
	}
	for _, key := range []string{"events_per_second", "latency_p50_ms", "latency_p99_ms"} {
		if n, ok := object[key].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v", key, object[key])
		}
	}
}
