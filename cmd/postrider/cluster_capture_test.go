package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// pgbench's own transaction runs on captured tables, and a worker is killed meanwhile: each change arrives once, in the order of its row.
// What an event says was before is what the row's last one said, and the last one says what the table holds.
func TestEachChangeUnderPgbenchArrivesOnce(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	pgbench, ok := tool(t, "pgbench")
	if !ok {
		return
	}
	c := clustertest.New(t, clustertest.Config{Flags: []string{"--lease-ttl=2s"}})
	run := func(args ...string) {
		if output, err := exec.CommandContext(t.Context(), pgbench, append(args, c.DatabaseURL)...).CombinedOutput(); err != nil {
			t.Errorf("pgbench: %v\n%s", err, output)
		}
	}
	run("--initialize", "--scale=1", "--quiet")
	tables := map[string]string{"pgbench_accounts": "aid", "pgbench_tellers": "tid", "pgbench_branches": "bid"}
	for table, key := range tables {
		capture := clustertest.Launch(t, "capture", c.Environment(), "capture", "--table="+table, "--columns="+key+","+table[8:9]+"balance", "--old")
		if status := capture.Exit(t); status != exitOK {
			t.Fatalf("capture: status %d: %s", status, capture.Stderr())
		}
	}
	workers := c.Start(t, 3)
	s := c.Subscribe(t, nil)
	const clients, transactions = 8, 60
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run("--no-vacuum", fmt.Sprint("--client=", clients), "--jobs=2", fmt.Sprint("--transactions=", transactions))
	}()
	s.WaitReceived(t, 200)
	workers[1].Signal(t, syscall.SIGKILL)
	<-ended
	if t.Failed() {
		t.FailNow()
	}
	declareForeign(t, c)
	changes := len(tables) * c.Count(t, `SELECT count(*) FROM pgbench_history WHERE delta <> 0`) // an UPDATE that changes nothing has no event
	if got := c.Verify(t).Received; got != changes || changes == 0 {
		t.Errorf("%d events of %d changes", got, changes)
	}
	for table, key := range tables {
		wantRowsFollowed(t, c, table, key)
	}
}

// wantRowsFollowed follows the rows of a table of pgbench through their events, from zero to what it holds.
func wantRowsFollowed(t *testing.T, c *clustertest.Cluster, table, key string) {
	t.Helper()
	balance := table[8:9] + "balance"
	held := map[int]int{}
	rows, err := c.Pool.Query(t.Context(), `SELECT convert_from(payload, 'UTF8') FROM events WHERE event_type = $1 ORDER BY sequence`, table+".updated")
	if err != nil {
		t.Fatal(err)
	}
	var payload string
	if _, err := pgx.ForEachRow(rows, []any{&payload}, func() error {
		var change struct{ Old, New map[string]int }
		if err := json.Unmarshal([]byte(payload), &change); err != nil {
			return err
		}
		row := change.New[key]
		if change.Old[balance] != held[row] {
			t.Errorf("%s %d: %s comes after %d", table, row, payload, held[row])
		}
		held[row] = change.New[balance]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(held) == 0 {
		t.Errorf("%s: no event", table)
	}
	for row, last := range held {
		if now := c.Count(t, fmt.Sprintf("SELECT %s FROM %s WHERE %s = $1", balance, table, key), row); now != last {
			t.Errorf("%s %d: the last event says %d, the table %d", table, row, last, now)
		}
	}
}
