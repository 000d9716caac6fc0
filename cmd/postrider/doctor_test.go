package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// diagnose runs doctor and returns its findings by the name of the check.
func diagnose(t *testing.T, wantCode int, args ...string) map[string]finding {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"doctor", "--json"}, args...)...)
	if code != wantCode {
		t.Errorf("status %d, want %d: %s%s", code, wantCode, stdout, stderr)
	}
	var list []finding
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	found := map[string]finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found
}

// What somebody wrote into the database steers no terminal.
func TestTablesSteerNoTerminal(t *testing.T) {
	t.Parallel()
	database := pgtest.Migrated(t, 8)
	if _, err := pgtest.Pool(t, database).Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, pid, hostname, version, heartbeat_until)
		VALUES (gen_random_uuid(), 1, E'ho\x1b]0;title\x07st', E'v1\u009b31m', clock_timestamp() + interval '1 hour')`); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t, "workers", "--database-url="+database)
	if code != exitOK || strings.ContainsAny(stdout, "\x1b\x07\u009b") || !strings.Contains(stdout, `ho\x1b]0;title\ast`) {
		t.Errorf("status %d: %q %s", code, stdout, stderr)
	}
}

// Tables that vacuum passes by, or cannot clean, and a stream that is nearly full are told.
func TestRoomIsTold(t *testing.T) {
	t.Parallel()
	database, broker := pgtest.Migrated(t, 8), natstest.Start(t, 1)
	broker.Stream(t, 1, func(c *jetstream.StreamConfig) { c.MaxBytes = 10_000 })
	on := []string{"--database-url=" + database, "--nats-url=" + broker.URL()}
	found := diagnose(t, exitOK, on...)
	for check, text := range map[string]string{"room": "events ", "vacuum": "all tables", "room in the stream": "of 9.8 KiB (max_bytes)"} {
		if f := found[check]; f.Level != levelOK || !strings.Contains(f.Detail, text) {
			t.Errorf("of a fresh outbox: %+v", f)
		}
	}
	if _, err := pgtest.Pool(t, database).Exec(t.Context(), `ALTER TABLE outbox_ready SET (autovacuum_enabled = off)`); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.JetStream(t).Publish(t.Context(), "events.a.b", make([]byte, 8_500)); err != nil {
		t.Fatal(err)
	}
	found = diagnose(t, exitOK, on...)
	for check, text := range map[string]string{"vacuum": "passes outbox_ready by", "room in the stream": "delivery pauses"} {
		if f := found[check]; f.Level != levelWarning || !strings.Contains(f.Detail, text) {
			t.Errorf("it finds %+v, want %q", f, text)
		}
	}
	away := diagnose(t, exitFailed, "--database-url=postgres://u@127.0.0.1:1/x", "--nats-url="+broker.URL())
	if f := away["fence"]; f.Level != levelWarning || !strings.Contains(f.Detail, "not checked") {
		t.Errorf("where nothing tells which control messages are the outbox's, the fence is judged all the same: %+v", f)
	}
	dead := judgeRoom([]pgstore.TableRoom{{Name: "outbox_ready", Churns: true, Live: 5, Dead: manyDead + 1}, {Name: "events", Dead: manyDead + 1}})[1]
	if dead.Level != levelWarning || !strings.Contains(dead.Detail, "outbox_ready has 1,000,001 dead rows") || strings.Contains(dead.Detail, "events") {
		t.Errorf("dead rows are told as %+v", dead)
	}
}

// A stream that keeps no fence is wrong for workers, and for a resize beside them; one that takes no batches is slower.
func TestDoctorLooksAsTheWorkersPublish(t *testing.T) {
	t.Parallel()
	database := pgtest.Migrated(t, 8)
	on := func(change func(*jetstream.StreamConfig)) []string {
		broker := natstest.Start(t, 1)
		broker.Stream(t, 1, change)
		return []string{"--database-url=" + database, "--nats-url=" + broker.URL()}
	}
	unfit := on(func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 })
	without := on(func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false })
	found := diagnose(t, exitFailed, unfit...)
	if f := found["fence"]; f.Level != levelError || !strings.Contains(f.Detail, "max_msgs_per_subject") || found["stream"].Level != levelOK {
		t.Errorf("of a stream that keeps no fence it says %+v", found)
	}
	if code, _, stderr := call(t, append([]string{"gaps", "detect"}, unfit...)...); code != exitOK {
		t.Errorf("who only looks is refused by a stream that keeps no fence: status %d: %s", code, stderr)
	}
	if f := diagnose(t, exitOK, without...)["fence"]; f.Level != levelWarning || !strings.Contains(f.Detail, "one by one") {
		t.Errorf("of a stream without batches it says %+v", f)
	}
	resize := append([]string{"partitions", "resize", "4", "--yes", "--reason=test"}, unfit...)
	complaint{resize, exitRefused, []string{"max_msgs_per_subject"}}.check(t)
	complaint{append([]string{"doctor", "--nats-context=none"}, unfit...), exitRefused, []string{"no such context"}}.check(t)
	if f := diagnose(t, exitFailed, unfit[0], "--nats-url=nats://a#b@c")["broker"]; strings.Contains(f.Detail, "bring it back") {
		t.Errorf("of a URL that cannot be read it says %s", f.Detail)
	}
}

// A schema in which others may create is not migrated unless that is meant; doctor tells who may, and which functions they have put
// beside ours, with the statement that ends it.
func TestRightsToCreateAreTold(t *testing.T) {
	t.Parallel()
	database, broker := pgtest.Migrated(t, 8), natstest.Start(t, 1)
	broker.Stream(t, 1)
	on := []string{"--database-url=" + database, "--nats-url=" + broker.URL()}
	found := diagnose(t, exitOK, on...)
	for _, check := range []string{"rights on the schema", "search path"} {
		if f := found[check]; f.Level != levelOK {
			t.Errorf("in a fresh outbox: %+v", f)
		}
	}
	pool := pgtest.Pool(t, database)
	for _, way := range []struct{ role, sql, cure string }{
		{"PUBLIC", `GRANT CREATE ON SCHEMA public TO PUBLIC`, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`},
		{"pg_monitor", `GRANT CREATE ON SCHEMA public TO pg_monitor`, `REVOKE CREATE ON SCHEMA public FROM pg_monitor`},
		{"pg_monitor", `ALTER SCHEMA public OWNER TO pg_monitor`, `ALTER SCHEMA public OWNER TO postgres`},
	} {
		if _, err := pool.Exec(t.Context(), way.sql); err != nil {
			t.Fatal(err)
		}
		f := diagnose(t, exitOK, on...)["rights on the schema"]
		if f.Level != levelWarning || !strings.Contains(f.Detail, way.role) || !strings.Contains(f.Detail, way.cure) {
			t.Errorf("after %s: %+v", way.sql, f)
		}
		code, _, stderr := call(t, "migrate", "up", on[0])
		if code != exitRefused || !strings.Contains(stderr, way.cure) {
			t.Errorf("after %s migrate up ends with %d: %s", way.sql, code, stderr)
		}
		if code, _, stderr := call(t, "migrate", "up", on[0], "--others-may-create"); code != exitOK || !strings.Contains(stderr, way.cure) {
			t.Errorf("after %s migrate up --others-may-create ends with %d: %s", way.sql, code, stderr)
		}
		if _, err := pool.Exec(t.Context(), way.cure); err != nil {
			t.Errorf("%s: %v", way.cure, err)
		}
		if f := diagnose(t, exitOK, on...)["rights on the schema"]; f.Level != levelOK {
			t.Errorf("after %s: %+v", way.cure, f)
		}
	}
	for _, sql := range []string{
		`CREATE FUNCTION outbox_append(text, text, jsonb) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`, `ALTER FUNCTION outbox_append(text, text, jsonb) OWNER TO pg_monitor`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const cure = "DROP FUNCTION public.outbox_append(text,text,jsonb)"
	if f := diagnose(t, exitFailed, on...)["functions of strangers"]; f.Level != levelError || !strings.Contains(f.Detail, "pg_monitor") || !strings.Contains(f.Detail, cure) {
		t.Errorf("of a function beside ours: %+v", f)
	}
}

func TestDoctorChecksThePreconditionsOfStrictOrder(t *testing.T) {
	t.Parallel()
	database, broker := pgtest.Migrated(t, 8), natstest.Start(t, 1)
	broker.Stream(t, 1)
	on := []string{"--database-url=" + database, "--nats-url=" + broker.URL()}

	found := diagnose(t, exitOK, on...)
	if f := found["strict order"]; f.Level != levelOK {
		t.Errorf("in a fresh outbox: %+v", found)
	}
	if f := found["strict order: idle"]; f.Level != levelWarning || !strings.Contains(f.Detail, "ALTER DATABASE") {
		t.Errorf("of producers that may idle for ever: %+v", f)
	}

	pool := pgtest.Pool(t, database)
	if _, err := pool.Exec(t.Context(), `ALTER SEQUENCE events_sequence_seq CACHE 10`); err != nil {
		t.Fatal(err)
	}
	found = diagnose(t, exitFailed, on...)
	f := found["strict order: sequence"]
	for _, text := range []string{"cache 10", "ALTER SEQUENCE public.events_sequence_seq CACHE 1", "--ordering stream"} {
		if f.Level != levelError || !strings.Contains(f.Detail, text) {
			t.Errorf("it does not say %q: %+v", text, f)
		}
	}
	if f, told := found["strict order"]; told {
		t.Errorf("of a violated order: %+v", f)
	}
	for check := range diagnose(t, exitOK, append(on, "--ordering=stream")...) {
		if strings.HasPrefix(check, "strict order") {
			t.Errorf("%s is checked for ordering stream", check)
		}
	}
	if _, err := pool.Exec(t.Context(), `ALTER TABLE outbox_parked DISABLE TRIGGER outbox_durable`); err != nil {
		t.Fatal(err)
	}
	found = diagnose(t, exitFailed, append(on, "--ordering=stream")...)
	if f := found["order of streams: durable"]; f.Level != levelError || !strings.Contains(f.Detail, "ENABLE ALWAYS TRIGGER outbox_durable") {
		t.Errorf("of events that are not durable: %+v", f)
	}
}
