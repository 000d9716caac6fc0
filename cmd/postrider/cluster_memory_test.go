package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// The unit and the chart stop a worker at 512 MiB, and tell the runtime so.
const (
	memoryMost  = 512 << 20
	memoryLimit = "GOMEMLIMIT=320MiB"
)

// The largest events that a broker can take pass through a worker, whatever it does to them, within the memory that it is given.
func TestTheLargestEventsFitIntoAWorker(t *testing.T) { //nolint:paralleltest // it measures memory
	slow.Test(t)
	// Such a text does not become much shorter by compression; room is left for the headers.
	random := make([]byte, 47<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random) // it never fails
	payload := bytes.NewBufferString(`{"name":"ann","data":"`)
	payload.WriteString(base64.StdEncoding.EncodeToString(random))
	payload.WriteString(`"}`)
	random = nil
	t.Run("a stream in files", func(t *testing.T) {
		brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{MaxPayload: 64 << 20})
		c := clustertest.New(t, clustertest.Config{Partitions: 8, NATS: brokers.Server})
		raiseLimit(t, c)
		if _, err := c.Pool.Exec(t.Context(), `SELECT outbox_append_bytes('large', 'large', $1)`, payload.Bytes()); err != nil {
			t.Fatal(err)
		}
		appendEvent(t, c, "small", 1)
		clustertest.Launch(t, "worker", c.Environment(), "run", "--http-addr=off")
		clustertest.Until(t, "the large one is dead and the small one published", func(ctx context.Context) (done bool, err error) {
			err = c.Pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'dead' AND last_error LIKE '%not read%') = 1
				AND count(*) FILTER (WHERE state = 'published') = 1 FROM outbox_messages`).Scan(&done)
			return done, err
		}, nil)
	})
	for name, flags := range map[string][]string{ //nolint:paralleltest // they measure memory
		"plain": nil, "redaction": {"--redact-pointer=/name"}, "zstd": {"--compress=zstd"}, "gzip": {"--compress=gzip"}, "s2": {"--compress=s2"},
		"redaction and zstd": {"--redact-pointer=/name", "--compress=zstd"}, "redaction and gzip": {"--redact-pointer=/name", "--compress=gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{MaxPayload: 64 << 20})
			c := clustertest.New(t, clustertest.Config{Partitions: 8, NATS: brokers.Server, NoStream: true})
			raiseLimit(t, c)
			for n := range 8 {
				if _, err := c.Pool.Exec(t.Context(), `SELECT outbox_append_bytes($1, 'large', $2)`, fmt.Sprint("s-", n), payload.Bytes()); err != nil {
					t.Fatal(err)
				}
			}
			w := clustertest.Launch(t, "worker", append(c.Environment(), memoryLimit), append([]string{"run", "--http-addr=off", "--create-stream", "--stream-storage=memory"}, flags...)...)
			for left := 7; left >= 0; left-- { // each may take a busy machine long
				c.WaitCount(t, 1, fmt.Sprintf(`SELECT count(*) WHERE (SELECT count(*) FROM outbox) <= %d`, left))
			}
			if dead := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE state <> 'published'`); dead > 0 {
				t.Errorf("%d were not published", dead)
			}
			if peak := peakOf(t, w.PID()); peak > memoryMost {
				t.Errorf("the worker took %d MiB", peak>>20)
			} else {
				t.Logf("the worker took %d MiB", peak>>20)
			}
		})
	}
}

// raiseLimit has producers append, and workers read, as much as NATS can be told to take.
func raiseLimit(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox_settings SET max_payload_bytes = 67108864`); err != nil {
		t.Fatal(err)
	}
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakOf is the most memory that a process has held, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := highWater.FindSubmatch(text)
	if found == nil {
		t.Skip("this system does not tell what a process has held at most")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
