package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestCaptureAndAdoptFromTheCommandLine(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 8)
	pool := pgtest.Pool(t, url)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY, secret text);
		CREATE TABLE outboxevent (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb, n serial);
		INSERT INTO outboxevent (aggregatetype, aggregateid, type, payload) SELECT 'Order', '17', 'Placed', '{}' FROM generate_series(1, 3)`); err != nil {
		t.Fatal(err)
	}
	good := func(args ...string) string {
		t.Helper()
		code, out, complaint := call(t, append(args, "--database-url="+url)...)
		if code != exitOK {
			t.Fatalf("postrider %s ended with %d: %s", strings.Join(args, " "), code, complaint)
		}
		return out
	}
	if dry := good("capture", "--table=orders", "--exclude=secret", "--dry-run"); !strings.HasPrefix(dry, "BEGIN;\n") || !strings.Contains(dry, "CREATE TRIGGER") {
		t.Errorf("dry run: %s", dry)
	}
	if list := good("capture", "list", "--json"); list != "[]\n" {
		t.Errorf("after a dry run: %s", list)
	}
	good("capture", "--table=orders", "--key=id", "--exclude=secret", "--operations=insert,delete", "--topic=shop", "--type=order.{operation}", "--old")
	complaint{[]string{"capture", "--table=orders", "--no-old", "--replace", "--database-url=" + url}, exitRefused, []string{"--yes", "old: true -> false"}}.check(t)
	good("capture", "create", "--table=orders", "--no-old", "--replace", "--yes")
	var listed []triggerRow
	if err := json.Unmarshal([]byte(good("capture", "list", "--json")), &listed); err != nil || len(listed) != 1 || listed[0].Table != "public.orders" || !listed[0].Enabled {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	if list := good("capture", "list"); !strings.Contains(list, `"topic":"shop"`) || !strings.Contains(list, `"exclude":["secret"]`) {
		t.Errorf("listed: %s", list)
	}
	if _, err := pool.Exec(t.Context(), `ALTER TABLE orders DISABLE TRIGGER ALL`); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"capture", "list"}, {"status"}, {"status", "--json"}, {"doctor", "--nats-url=nats://127.0.0.1:1"}} {
		if _, out, _ := call(t, append(command, "--database-url="+url)...); !strings.Contains(out, "disabled") || !strings.Contains(out, "ENABLE TRIGGER") {
			t.Errorf("%s says %s", command, out)
		}
	}

	adopt := []string{"adopt", "--table=public.outboxevent", "--preset=debezium"}
	var done triggerBody
	if err := json.Unmarshal([]byte(good(append(adopt, "--dry-run", "--json")...)), &done); err != nil || done.Waiting != 3 || done.Imported != 0 || !done.DryRun {
		t.Errorf("dry run: %+v, %v", done, err)
	}
	if text := good(append(adopt, "--map=n=tenant_id", "--no-qualify")...); !strings.Contains(text, "3 of 3 that waited") {
		t.Errorf("adopted: %s", text)
	}
	if text := good(append(adopt, "--replace")...); !strings.Contains(text, "0 of 3 that waited") {
		t.Errorf("adopted again: %s", text)
	}
	if list := good("adopt", "list"); !strings.Contains(list, "public.outboxevent") || strings.Contains(list, "orders") {
		t.Errorf("listed: %s", list)
	}
	var streams string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(stream_id || ' ' || tenant_id, ', ' ORDER BY sequence) FROM events`).Scan(&streams); err != nil || streams != "17 1, 17 2, 17 3" {
		t.Errorf("streams %s, %v", streams, err)
	}
	good("adopt", "drop", "--table=outboxevent")
	good("capture", "drop", "--table=public.orders")

	for _, c := range []complaint{
		{[]string{"capture"}, exitRefused, []string{"--table"}},
		{[]string{"capture", "--table=nowhere"}, exitRefused, []string{"--table", "nowhere"}},
		{[]string{"capture", "drop", "--table=orders"}, exitRefused, []string{"--table", "capture list"}},
		{[]string{"adopt", "--table=outboxevent", "--preset=debezium", "--lock-timeout=0s"}, exitRefused, []string{"--lock-timeout"}},
		{[]string{"adopt", "--table=outboxevent", "--preset=debezium", "--lock-timeout=600h"}, exitRefused, []string{"--lock-timeout", "596h"}},
		{[]string{"adopt", "--table=outboxevent", "--map=id"}, exitRefused, []string{"--map"}},
	} {
		c.args = append(c.args, "--database-url="+url)
		c.check(t)
	}
}
