package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// repeats counts what came under each generation above 0.
type repeats struct {
	mu   sync.Mutex
	seen map[int32]map[int64]int // by sequence
}

func (r *repeats) note(m ledger.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Generation == 0 {
		return
	}
	if r.seen == nil {
		r.seen = map[int32]map[int64]int{}
	}
	if r.seen[m.Generation] == nil {
		r.seen[m.Generation] = map[int64]int{}
	}
	r.seen[m.Generation][m.Sequence]++
}

// of counts the events of a generation, and the messages beyond the first of each.
func (r *repeats) of(generation int) (events int64, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen[int32(generation)] { // read from an int column
		events, more = events+1, more+n-1
	}
	return events, more
}

// promise makes dry runs until nothing that is selected waits for its first
// delivery.
func promise(t *testing.T, c *clustertest.Cluster, selection ...string) replay.PlanBody {
	t.Helper()
	var p replay.PlanBody
	for try := 1; try == 1 || p.Waiting > 0; try++ {
		p = replay.PlanBody{}
		if err := json.Unmarshal([]byte(operate(t, c, append([]string{"replay", "--dry-run", "--json"}, selection...)...)), &p); err != nil {
			t.Fatal(err)
		}
		if p.Selected == 0 || try > 20 {
			t.Fatalf("%v: %+v", selection, p)
		}
	}
	return p
}

// killed replays and kills the process twice in its middle, and returns what the
// third one says.
func killed(t *testing.T, c *clustertest.Cluster, promised int64, args ...string) replay.Body {
	t.Helper()
	var id int64
	for round := int64(1); round <= 2; round++ {
		if id > 0 {
			args = []string{"replay", "resume", fmt.Sprint(id)}
		}
		p := clustertest.Launch(t, strings.Join(args, " "), c.Environment(), append(args, "--rate", fmt.Sprint(promised/2+20), "--json")...)
		clustertest.Until(t, "it has done a part", func(ctx context.Context) (bool, error) {
			var done int64
			err := c.Pool.QueryRow(ctx, `SELECT coalesce(max(id), 0), coalesce((SELECT replayed FROM outbox_replays ORDER BY id DESC LIMIT 1), 0)
				FROM outbox_replays WHERE selected = $1 AND state = 'running'`, promised).Scan(&id, &done)
			return id > 0 && done >= promised*round/3, err
		}, p.Stderr)
		p.Signal(t, syscall.SIGKILL)
		p.Exit(t)
	}
	var j replay.Body
	if err := json.Unmarshal([]byte(operate(t, c, "replay", "resume", fmt.Sprint(id), "--rate=0", "--json")), &j); err != nil {
		t.Fatal(err)
	}
	return j
}

// One stream, one day and everything are replayed beside a live cluster, and each
// replay is killed twice: what is delivered is what the dry run promised, and the
// first deliveries are as if nothing had been.
func TestKilledReplaysKeepTheirPromise(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16})
	var again repeats
	c.Subscribe(t, again.note)
	c.Start(t, 2)
	early := c.Produce(t, clustertest.Load{Streams: 40})
	early.WaitCommitted(t, 3000)
	early.Stop(t)
	c.WaitDrained(t)
	if _, err := c.Pool.Exec(t.Context(), `UPDATE events SET recorded_at = '2020-02-02 12:00Z' WHERE sequence BETWEEN 500 AND 1500`); err != nil {
		t.Fatal(err)
	}
	c.Produce(t, clustertest.Load{Streams: 40, Writers: 2})
	var last replay.PlanBody
	for _, selection := range [][]string{
		{"--stream=stream-7"},
		{"--since=2020-02-02T00:00:00Z", "--until=2020-02-03T00:00:00Z"},
		{"--all"},
	} {
		p := promise(t, c, selection...)
		args := append([]string{"replay", "--yes", "--reason=test", fmt.Sprintf("--to-sequence=%d", p.Last)}, selection...)
		j := killed(t, c, p.Selected, args...)
		if j.State != "done" || j.Replayed != p.Selected || *j.Selected != p.Selected || j.Gone+j.Failed != 0 {
			t.Errorf("%v: the dry run promised %d, the replay says %+v", selection, p.Selected, j)
		}
		c.WaitCount(t, 0, `SELECT -count(*) FROM outbox WHERE replay_id IS NOT NULL`)
		clustertest.Until(t, "all of it is received", func(context.Context) (bool, error) {
			n, _ := again.of(j.Generation)
			return n >= p.Selected, nil
		}, func() string { return fmt.Sprint(again.of(j.Generation)) })
		if n, more := again.of(j.Generation); n != p.Selected || more != 0 {
			t.Errorf("%v: %d events were received under generation %d, %d of them twice; want %d", selection, n, j.Generation, more, p.Selected)
		}
		last = p
	}
	if last.Selected < 3000 {
		t.Errorf("everything was %d events", last.Selected)
	}
	c.Verify(t, clustertest.Replays)
}

// A shadow replay that is killed goes on without repeating anything, past a live
// cluster that it does not touch.
func TestAKilledShadowReplayRepeatsNothing(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16})
	c.Subscribe(t, nil)
	c.Start(t, 2)
	early := c.Produce(t, clustertest.Load{Streams: 40})
	early.WaitCommitted(t, 3000)
	early.Stop(t)
	c.WaitDrained(t)
	c.Produce(t, clustertest.Load{Streams: 40, Writers: 1})
	js := c.NATS.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "REPLAYS", Subjects: []string{"replay.>"}, Duplicates: 100 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	p := promise(t, c, "--to-sequence=2900")
	j := killed(t, c, p.Selected, "replay", "--to-sequence=2900", "--shadow-prefix=replay.{id}", "--shadow-stream=REPLAYS", "--yes")
	if j.Replayed != p.Selected || j.Destination != "shadow" {
		t.Errorf("the dry run promised %d, the replay says %+v", p.Selected, j)
	}
	stream, err := js.Stream(t.Context(), "REPLAYS")
	if err != nil {
		t.Fatal(err)
	}
	seen, last := map[string]int{}, map[string]int64{}
	for at := uint64(1); at <= stream.CachedInfo().State.LastSeq; at++ {
		raw, err := stream.GetMsg(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ledger.ParseMessage(raw.Subject, raw.Header, raw.Data, at)
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.EventID.String()]++; m.Sequence <= last[m.Stream] || !strings.HasPrefix(raw.Subject, *j.Prefix+".events.") {
			t.Errorf("%s holds sequence %d after %d of its stream", raw.Subject, m.Sequence, last[m.Stream])
		}
		last[m.Stream] = m.Sequence
	}
	if int64(len(seen)) != p.Selected || stream.CachedInfo().State.Msgs != uint64(p.Selected) { // a count
		t.Errorf("the stream holds %d messages of %d events, want %d", stream.CachedInfo().State.Msgs, len(seen), p.Selected)
	}
	c.Verify(t)
}
