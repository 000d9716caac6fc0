package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// The number of partitions changes up and down under load: nothing is lost or
// doubled, every stream keeps its order, and producers put new events where the
// moved ones went.
func TestResizeUnderLoad(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16, Resized: true, Flags: append(shortTTL(), "--ordering=stream")})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	s := c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Every: 4 * time.Millisecond})
	s.WaitReceived(t, 300)
	for _, count := range []int{40, 7} {
		resize := clustertest.Launch(t, "resize", c.Environment(), "partitions", "resize", fmt.Sprint(count), "--reason=test", "--json")
		if code := resize.Exit(t); code != exitOK {
			t.Fatalf("partitions resize %d: %s", count, resize.Stderr())
		}
		t.Log(resize.Stdout())
		c.Repartitioned(count)
		c.WaitShared(t, workers...)
		if n := c.Count(t, `SELECT count(*) FROM outbox_partitions`); n != count {
			t.Errorf("%d partition rows, want %d", n, count)
		}
		s.WaitReceived(t, 500)
	}
	load.Stop(t)
	if n := c.Count(t, `SELECT count(*) FROM outbox WHERE partition_key <> outbox_partition(stream_id, 7)`); n != 0 {
		t.Errorf("%d rows lie in another partition than their stream's", n)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE action = 'partitions.resize'`); n != 2 {
		t.Errorf("%d resizes are in the audit log, want 2", n)
	}
	c.Verify(t)
}
