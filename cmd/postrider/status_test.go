package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
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
	on := []string{"status", "--database-url=" + address, "--events-relation"}
	complaint{append(on, `a"b`), exitRefused, []string{"--events-relation", `a\"b`}}.check(t)
	complaint{append(on, "nothing"), exitFailed, []string{"--events-relation", "nothing"}}.check(t)
}
