package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Two outboxes of one database and one account: the second one's stream, subjects and control prefix are said once. No command that is told its
// schema alone shows or touches what is the first one's.
func TestASecondOutboxIsKnownByItsSchemaAlone(t *testing.T) {
	t.Parallel()
	address, broker := pgtest.Migrated(t, 4), natstest.Start(t, 1)
	pool, js := pgtest.Pool(t, address), broker.JetStream(t)
	database, server := "--database-url="+address, "--nats-url="+broker.URL()
	on := func(says string, args ...string) {
		t.Helper()
		if code, stdout, stderr := call(t, args...); code != exitOK || !strings.Contains(stdout, says) {
			t.Errorf("%s: status %d, %q is wanted:\n%s%s", strings.Join(args, " "), code, says, stdout, stderr)
		}
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	up := []string{"migrate", "up", "--schema=b", database}
	on("stream SHOP", append(up, "--partitions=4", "--stream=SHOP", "--subject=shop.{topic}.{type}", "--control-prefix=fence.shop")...)
	on(`"stream":"SHOP","subject":"shop.{topic}.{type}"`, append(up, "--json")...)
	exec(`SELECT outbox_append('s', 't', '{}') FROM generate_series(1, 2)`)
	exec(`SELECT b.outbox_append('s', 't', '{}') FROM generate_series(1, 3)`)
	once := []string{"run", "--once", "--http-addr=off", "--create-stream", database, server}
	on("published 2,", once...)
	first := subjectsIn(t, js, "EVENTS")
	on("published 3,", append(once, "--schema=b")...)
	if got := subjectsIn(t, js, "SHOP"); got["shop.default.t"] != 3 {
		t.Errorf("the second outbox's stream holds %v", got)
	}
	exec(`SELECT b.outbox_append('s', 't', '{}')`)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}); err != nil {
		t.Fatal(err)
	}
	b := []string{"--schema=b", database}
	bServer := append(b, server)
	for _, one := range []struct {
		says string
		args []string
	}{
		{"would have published 1,", append([]string{"run", "--shadow", "--once", "--http-addr=off"}, bServer...)},
		{"SHOP with 1 replica", append([]string{"doctor"}, bServer...)},
		{`"received":3,`, append([]string{"tail", "--all", "--count", "--limit=3", "--json"}, bServer...)},
		{"shop.default.t", append([]string{"tail", "--all", "--limit=3", "--json"}, bServer...)},
		{"0 gaps among 3 events, 3 messages", append([]string{"gaps", "detect", "--to-sequence=3"}, bServer...)},
		{"would queue 0 events", append([]string{"gaps", "repair", "--dry-run"}, bServer...)},
		{"would make 8 partitions of 4", append([]string{"partitions", "resize", "8", "--dry-run"}, bServer...)},
		{"8 partitions were 4", append([]string{"partitions", "resize", "8", "--yes", "--reason=r"}, bServer...)},
		{"removed 0 records", append([]string{"partitions", "trim"}, bServer...)},
		{"published 3 events", append([]string{"replay", "--to-sequence=3", "--shadow-stream=REPLAYS", "--yes", "--other-shape"}, bServer...)},
		{"queued 3 events", append([]string{"replay", "--to-sequence=3", "--yes"}, bServer...)},
		{"published 4,", append(once, "--schema=b")},
		{"published", append([]string{"messages", "list"}, b...)},
		{`"address": "shop.default.{type}"`, append([]string{"asyncapi"}, b...)},
	} {
		on(one.says, one.args...)
	}
	if got := subjectsIn(t, js, "SHOP"); got["shop.default.t"] != 7 {
		t.Errorf("the second outbox's stream holds %v", got)
	}
	if got := subjectsIn(t, js, "REPLAYS"); got["replay.1.shop.default.t"] != 3 {
		t.Errorf("a shadow replay went to %v", got)
	}
	if got := subjectsIn(t, js, "EVENTS"); !maps.Equal(got, first) {
		t.Errorf("the first outbox's stream held %v, and holds %v", first, got)
	}
	wantContradictionsRefused(t, once, bServer)
	// Only while nobody publishes to it can it be changed.
	exec(`INSERT INTO b.outbox_workers (worker_id, heartbeat_until) VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')`)
	complaint{append(up, "--stream=OTHER"), exitRefused, []string{"--stream", "a worker is living", "SHOP", "stop"}}.check(t)
	on("stream SHOP", append(up, "--stream=SHOP")...)
	exec(`DELETE FROM b.outbox_workers`)
	on("stream OTHER with subjects shop.{topic}.{type}", append(up, "--stream=OTHER")...)
}

// subjectsIn counts the messages of a stream by their subjects.
func subjectsIn(t *testing.T, js jetstream.JetStream, stream string) map[string]uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}

// wantContradictionsRefused wants whoever publishes to refuse other flags than are stored, and doctor to tell.
func wantContradictionsRefused(t *testing.T, once, bServer []string) {
	t.Helper()
	for _, args := range [][]string{
		append(once, "--schema=b", "--stream=EVENTS"),
		append([]string{"run", "--shadow", "--once", "--http-addr=off", "--stream=EVENTS"}, bServer...),
		append([]string{"partitions", "resize", "4", "--yes", "--reason=r", "--stream=EVENTS"}, bServer...),
	} {
		complaint{args, exitRefused, []string{"--stream EVENTS", "SHOP", "leave it out", "`postrider migrate up --schema b --stream EVENTS`"}}.check(t)
	}
	complaint{append(once, "--schema=b", "--subject=events.{topic}"), exitRefused, []string{"--subject 'events.{topic}'", "shop.{topic}.{type}", "migrate up --schema b --subject 'events.{topic}'"}}.check(t)
	if f := diagnose(t, exitFailed, append(bServer, "--stream=EVENTS")...)["stream settings"]; f.Level != levelError || !strings.Contains(f.Detail, "SHOP") {
		t.Errorf("doctor finds %+v", f)
	}
}
