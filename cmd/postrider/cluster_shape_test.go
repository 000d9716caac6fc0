package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// everyShape is every setting that changes messages.
func everyShape() []string {
	return []string{
		"--headers=full", "--forward-header=x-user", "--cloudevents", "--cloudevents-source=/shop", "--redact-pointer=thing.done=/card",
		"--rename-type=thing.done=thing.finished", "--compress=zstd:1KiB",
	}
}

// shaped is each event's messages as text, by its generation and id, without what belongs to one publication.
func shaped(t *testing.T, c *clustertest.Cluster, name, prefix string) map[bool]map[string]string {
	t.Helper()
	stream, err := c.NATS.JetStream(t).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	found := map[bool]map[string]string{false: {}, true: {}}
	for at := uint64(1); at <= stream.CachedInfo().State.LastSeq; at++ {
		m, err := stream.GetMsg(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m.Subject, prefix) {
			continue
		}
		again := m.Header.Get("Outbox-Generation") != ""
		for _, name := range []string{
			"Outbox-Generation", "Outbox-Epoch", "Nats-Msg-Id", "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit",
			"Nats-Expected-Stream", "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject",
		} {
			m.Header.Del(name)
		}
		var lines []string
		for name, values := range m.Header {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
		slices.Sort(lines)
		text := fmt.Sprintf("%s\n%s\n\n%x", strings.TrimPrefix(m.Subject, prefix), strings.Join(lines, "\n"), m.Data)
		if id := m.Header.Get("Outbox-Event-Id"); found[again][id] == "" {
			found[again][id] = text
		} else {
			t.Errorf("event %s is there twice", id)
		}
		if strings.Contains(string(m.Data), "4711") {
			t.Errorf("%s is not redacted: %s", m.Subject, m.Data)
		}
	}
	return found
}

// Whatever the workers make of an event, a replay makes of it, to the live subjects and past the workers; what would look otherwise is
// refused. The settings come from flags, environment and file, as those of `run`.
func TestAReplayShapesMessagesAsTheWorkersDo(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4, Flags: everyShape()})
	if _, err := c.Pool.Exec(t.Context(), `SELECT outbox_append('order-' || n % 5, 'thing.done', jsonb_build_object('card', '4711', 'n', n, 'text', repeat('abc', n * 40)),
		topic => 'shop', metadata => '{"headers": {"x-user": "u7", "content-type": "application/json"}}') FROM generate_series(1, 40) AS n`); err != nil {
		t.Fatal(err)
	}
	rehearsal := clustertest.Launch(t, "shadow", c.Environment(),
		append([]string{"run", "--shadow", "--once", "--http-addr=off", "--log-level=debug", "--log-format=json"}, everyShape()...)...)
	if code := rehearsal.Exit(t); code != exitOK || strings.Count(rehearsal.Stderr(), `"events.shop.thing%2Efinished"`) != 40 {
		t.Errorf("the rehearsal ended with %d: %s", code, rehearsal.Stderr())
	}
	c.Start(t, 1)
	c.WaitCount(t, 40, `SELECT coalesce(sum(message_count), 0)::int FROM outbox_deliveries`)
	first := shaped(t, c, natstest.StreamName, "events.")[false]
	if len(first) != 40 {
		t.Fatalf("published %d events", len(first))
	}
	if _, err := c.NATS.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}); err != nil {
		t.Fatal(err)
	}

	past := []string{"replay", "--all", "--shadow-prefix=replay.x", "--shadow-stream=REPLAYS", "--yes", "--json"}
	refused := clustertest.Launch(t, "replay", c.Environment(), past...)
	if code := refused.Exit(t); code != exitRefused || !strings.Contains(refused.Stderr(), `--redact-pointer "thing.done=/card"`) {
		t.Errorf("without the workers' settings it ended with %d: %s", code, refused.Stderr())
	}
	if n := c.Count(t, `SELECT count(*)::int FROM outbox_replays`); n != 0 {
		t.Errorf("%d replays were made", n)
	}
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("redact-pointer: [thing.done=/card]\ncloudevents: true\ncloudevents-source: /shop\nheaders: full\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := append(c.Environment(), "POSTRIDER_RENAME_TYPE=thing.done=thing.finished", "POSTRIDER_FORWARD_HEADER=x-user")
	done := clustertest.Launch(t, "replay", environment, append(past, "--config="+file, "--compress=zstd:1024")...)
	var j replay.Body
	if code := done.Exit(t); code != exitOK || json.Unmarshal([]byte(done.Stdout()), &j) != nil || j.Replayed != 40 {
		t.Fatalf("it ended with %d: %s%s", code, done.Stdout(), done.Stderr())
	}
	compareShaped(t, "past the workers", first, shaped(t, c, "REPLAYS", "replay.x.events.")[true])

	operate(t, c, "replay", "--all", "--yes")
	c.WaitCount(t, 80, `SELECT coalesce(sum(message_count), 0)::int FROM outbox_deliveries`)
	compareShaped(t, "live", first, shaped(t, c, natstest.StreamName, "events.")[true])
}

func compareShaped(t *testing.T, what string, first, again map[string]string) {
	t.Helper()
	if len(again) != len(first) {
		t.Errorf("%s: %d of %d events", what, len(again), len(first))
	}
	for id, text := range first {
		if again[id] != text {
			t.Errorf("%s: event %s was\n%s\nand is\n%s", what, id, text, again[id])
		}
	}
}
