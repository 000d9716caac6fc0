package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// producerStreams is how many streams the three producers share.
const producerStreams = 40

// places notes in which partitions each producer's events of a stream came.
type places struct {
	mu    sync.Mutex
	kinds map[string]int
	byKey map[string]map[partition.ID]bool
}

func (p *places) note(m ledger.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds[m.Type]++
	if p.byKey[m.Stream] == nil {
		p.byKey[m.Stream] = map[partition.ID]bool{}
	}
	p.byKey[m.Stream][m.Partition] = true
}

// Go, psql and pgbench write the same streams at once: all arrives, in order, and equal keys go to equal partitions.
func TestProducersInGoPsqlAndPgbench(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{})
	seen := &places{kinds: map[string]int{}, byKey: map[string]map[partition.ID]bool{}}
	c.Start(t, 2)
	c.Subscribe(t, seen.note)

	want := map[string]int{"made.go": producerStreams * 5, "made.psql": producerStreams * 2, "made.pgbench": 400}
	var running sync.WaitGroup
	running.Go(func() { produceGo(t, c) })
	running.Go(func() { producePsql(t, c) })
	running.Go(func() { producePgbench(t, c) })
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	declareForeign(t, c)
	c.Verify(t)

	seen.mu.Lock()
	defer seen.mu.Unlock()
	if !maps.Equal(seen.kinds, want) {
		t.Errorf("events received by type: %v, want %v", seen.kinds, want)
	}
	for stream, partitions := range seen.byKey {
		expected := partition.Of(stream, clustertest.DefaultPartitions)
		if got := slices.Collect(maps.Keys(partitions)); len(got) != 1 || got[0] != expected {
			t.Errorf("stream %s came in partitions %v, want %d alone", stream, got, expected)
		}
	}
	if len(seen.byKey) != producerStreams {
		t.Errorf("%d streams, want %d", len(seen.byKey), producerStreams)
	}
}

// streamName has characters that hash functions and quoting could get wrong.
func streamName(n int) string { return fmt.Sprintf("заказ 'q'-%d", n) }

func produceGo(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	for range 5 {
		for n := range producerStreams {
			err := pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
				_, err := producer.AppendTx(t.Context(), tx, outbox.Event{StreamID: streamName(n), Type: "made.go", Payload: []byte(`{}`)})
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
}

// tool finds a client program of PostgreSQL.
func tool(t *testing.T, name string) (string, bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path, true
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Errorf("%s is not installed", name)
		return "", false
	}
	return found[len(found)-1], true
}

func producePsql(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	psql, ok := tool(t, "psql")
	if !ok {
		return
	}
	var script strings.Builder
	for n := range producerStreams {
		quoted := strings.ReplaceAll(streamName(n), "'", "''")
		fmt.Fprintf(&script, "BEGIN;\nSELECT outbox_append('%s', 'made.psql', '{\"n\": 1}');\n", quoted)
		fmt.Fprintf(&script, "SELECT outbox_append('%s', 'made.psql', '{\"n\": 2}');\nCOMMIT;\n", quoted)
	}
	cmd := exec.CommandContext(t.Context(), psql, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output="+os.DevNull, c.DatabaseURL)
	cmd.Stdin = strings.NewReader(script.String())
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("psql: %v\n%s", err, output)
	}
}

func producePgbench(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	pgbench, ok := tool(t, "pgbench")
	if !ok {
		return
	}
	script := filepath.Join(t.TempDir(), "append.sql")
	text := fmt.Sprintf("\\set n random(0, %d)\nSELECT outbox_append('заказ ''q''-' || :n, 'made.pgbench', '{\"by\": \"pgbench\"}');\n", producerStreams-1)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Error(err)
		return
	}
	cmd := exec.CommandContext(t.Context(), pgbench, "--no-vacuum", "--client=4", "--jobs=2", "--transactions=100", "--file="+script, c.DatabaseURL)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("pgbench: %v\n%s", err, output)
	}
}

// declareForeign enters into the ledger what was committed, whoever it was.
func declareForeign(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	rows, err := c.Pool.Query(t.Context(), `SELECT event_id, stream_id, stream_version, sequence, payload FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	var (
		id                uuid.UUID
		stream            string
		version, sequence int64
		payload           []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &stream, &version, &sequence, &payload}, func() error {
		c.Ledger.Committed([]ledger.Entry{{
			EventID: id, Stream: stream, Version: version, Sequence: sequence,
			Partition: partition.Of(stream, clustertest.DefaultPartitions), BodyHash: ledger.HashBody(payload),
		}}, time.Now())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
