package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// hold begins a transaction of an application and appends in it.
func hold(t *testing.T, c *clustertest.Cluster, application string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{`BEGIN`, `SELECT outbox_append('late', 'thing.done', '{}')`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

type seenStatus struct {
	Pending   int
	Watermark struct {
		State   string
		Lag     int64
		Waiting float64 `json:"waiting_seconds"`
		Holders []struct {
			PID         uint32
			Application string  `json:"application_name"`
			Age         float64 `json:"age_seconds"`
		}
	}
	WatermarkError string `json:"watermark_error"`
}

func status(t *testing.T, address string) (body seenStatus, text string) {
	t.Helper()
	code, stdout, stderr := call(t, "status", "--json", "--database-url="+address)
	if code != exitOK {
		t.Fatal(stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &body); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	code, text, stderr = call(t, "status", "--database-url="+address)
	if code != exitOK {
		t.Fatal(stderr)
	}
	return body, text
}

// waitTick waits until a line of the worker says so of its watermark.
func waitTick(t *testing.T, w *clustertest.Worker, says string) {
	t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); !strings.Contains(w.Stdout(), says); {
		if time.Now().After(deadline) {
			t.Fatalf("no line says %s: %s", says, w.Stdout())
		}
		w.WaitTick(t, "the next look", func(clustertest.Tick) bool { return true })
	}
}

// A stall names the transaction that causes it until that ends, and is none once
// the workers keep the order of streams alone.
func TestStatusNamesTheTransactionThatStalls(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	strict := c.Start(t, 1, "--ordering=partition")[0]
	tx := hold(t, c, "billing")
	appendEvent(t, c, "other", 1)

	var body seenStatus
	var text string
	for deadline := time.Now().Add(clustertest.Patience); !strings.Contains(text, "order waits for a transaction"); {
		if time.Now().After(deadline) {
			t.Fatalf("no transaction is named:\n%s", text)
		}
		strict.WaitTick(t, "the next look", func(clustertest.Tick) bool { return true })
		body, text = status(t, c.DatabaseURL)
	}
	pid := tx.PgConn().PID()
	for _, part := range []string{
		fmt.Sprintf("order waits for a transaction: pid %d (billing, idle in transaction, ", pid),
		fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid), "0, 2 behind, held for ",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the status lacks %q:\n%s", part, text)
		}
	}
	w := body.Watermark
	if body.Pending != 1 || w.State != "held" || w.Lag != 2 || w.Waiting <= 0 || len(w.Holders) != 1 ||
		w.Holders[0].PID != pid || w.Holders[0].Application != "billing" || w.Holders[0].Age <= 0 {
		t.Errorf("the status is %+v", body)
	}
	waitTick(t, strict, `"watermark_lag":2,`)

	strict.Signal(t, syscall.SIGTERM)
	strict.Exit(t)
	c.Start(t, 1, "--ordering=stream")
	c.WaitDrained(t)
	if body, text = status(t, c.DatabaseURL); body.Watermark.State != "held" || strings.Contains(text, "order waits") {
		t.Errorf("nobody waits for the transaction now, and the status is %+v:\n%s", body, text)
	}
	if _, err := tx.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	c.WaitDrained(t)
	if body, text = status(t, c.DatabaseURL); body.Watermark.State != "unused" || !strings.Contains(text, "not in use") {
		t.Errorf("the status is %+v:\n%s", body, text)
	}
}

func TestStatusWithoutTheWatermark(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 2)
	if body, text := status(t, address); body.Watermark.State != "current" || !strings.Contains(text, "0, current") {
		t.Errorf("the status is %+v:\n%s", body, text)
	}
	if _, err := pgtest.Pool(t, address).Exec(t.Context(), `ALTER TABLE outbox_watermark RENAME TO elsewhere`); err != nil {
		t.Fatal(err)
	}
	body, text := status(t, address)
	if body.Watermark.State != "unknown" || !strings.Contains(body.WatermarkError, "outbox_watermark") ||
		!strings.Contains(text, "unknown: ") || !strings.Contains(text, "outbox_watermark") {
		t.Errorf("the status is %+v:\n%s", body, text)
	}
}

// Which partitions wait, for what and since when, in lines of eighty columns, in the list of partitions and in JSON.
func TestStatusSaysWhichPartitionsWaitForWhat(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 16)
	pool := pgtest.Pool(t, address)
	for _, sql := range []string{
		`SELECT outbox_append(n::text, 'thing.done', '{}') FROM generate_series(1, 400) AS n`,
		`UPDATE outbox_partitions SET paused_at = '2026-11-22 10:00:00+00' WHERE partition_key IN (3, 7, 12, 13, 14)`,
		`INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until, condition, condition_detail, condition_since)
		 VALUES (gen_random_uuid(), 'here', 7, 'v1', clock_timestamp() + interval '1 hour', 'stream_full', 'maximum bytes exceeded', '2026-11-22 11:00:00+00')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	code, text, stderr := call(t, "status", "--database-url="+address)
	if code != exitOK {
		t.Fatal(stderr)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	flat := strings.Join(strings.Fields(text), " ")
	for _, part := range []string{
		"delivery pauses: stream_full since 2026-11-22 11:00:00 UTC on 1 worker: maximum bytes exceeded; to mend it: raise its limit",
		"partitions 3, 7, 12–14: paused by an operator since 2026-11-22 10:00:00 UTC (", "partitions 0–15: the stream is full: maximum bytes exceeded (400 events)",
		"partitions 0–15: no owner (400 events)",
	} {
		if !strings.Contains(flat, part) {
			t.Errorf("the status lacks %q:\n%s", part, text)
		}
	}
	code, text, stderr = call(t, "partitions", "list", "--database-url="+address)
	if code != exitOK || strings.Count(text, "paused since 2026-11-22 10:00:00 UTC") != 5 {
		t.Errorf("the list of partitions: %s%s", text, stderr)
	}
	var body struct {
		Conditions []struct{ Reason, Detail, Cure string }
		Waits      []struct {
			Reason     string
			Partitions []int
			Events     int64
		}
	}
	_, text, _ = call(t, "status", "--json", "--database-url="+address)
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Conditions) != 1 || body.Conditions[0].Reason != "stream_full" || body.Conditions[0].Cure == "" || len(body.Waits) != 3 ||
		body.Waits[2].Reason != "paused" || len(body.Waits[2].Partitions) != 5 || body.Waits[0].Events != 400 {
		t.Errorf("the status is %+v", body)
	}
	code, text, _ = call(t, "workers", "--database-url="+address)
	if code != exitOK || !strings.Contains(text, "active, stream_full") {
		t.Errorf("the list of workers: %s", text)
	}
}

// A worker delivers although its role may call none of the functions that tell of the server's log, and doctor says how.
func TestAWorkerDeliversWithoutTheServersFunctions(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 2)
	pool := pgtest.Pool(t, address)
	role := plainRelay(t, pool)
	if _, err := pool.Exec(t.Context(), "SELECT outbox_append('s', 't', '1')"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "relay")
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	servers := []string{"--database-url=" + u.String(), "--nats-url=" + broker.URL()}
	if code, _, stderr := call(t, append([]string{"run", "--http-addr=off", "--once"}, servers...)...); code != exitOK {
		t.Errorf("status %d: %s", code, stderr)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events were left, %v", left, err)
	}
	_, stdout, _ := call(t, append([]string{"doctor", "--json"}, servers...)...)
	for _, said := range []string{"snapshots tell of changes", "known by its server's start"} {
		if !strings.Contains(stdout, said) {
			t.Errorf("doctor does not say %q: %s", said, stdout)
		}
	}
}
