package main

import (
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// A stream has more workers than it takes atomic batches at once.
func TestSixtyFourWorkersPublishToOneStream(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	const workers = 64
	server := pgtest.Server(t, localpg.Config{Settings: map[string]string{"max_connections": fmt.Sprint(8*workers + 50)}})
	if code, _, stderr := call(t, "migrate", "up", "--partitions=128", "--database-url="+server.URL()); code != exitOK {
		t.Fatal(stderr)
	}
	c := clustertest.New(t, clustertest.Config{
		Partitions: 128, DatabaseURL: server.URL(), NATS: natstest.StartWith(t, localnats.Config{MaxBatches: workers / 8}),
		Flags: []string{"--lease-ttl=30s", "--interval=1s"}, // they share the cores
	})
	var all []*clustertest.Worker
	for len(all) < workers { // all at once, they would keep each other from starting in time
		all = append(all, c.Start(t, 8)...)
	}
	c.WaitHeld(t, all...)
	c.Subscribe(t, nil)
	c.Backlog(t, 20_000)
	c.Verify(t)
}

// Three processes share 64 partitions, a fourth takes its part, and one that leaves gives its part back.
func TestProcessesSharePartitions(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, strategy := range []string{"modulo", "sticky"} { //nolint:paralleltest // clusters run one at a time
		t.Run(strategy, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{
				NoStream: true, // all three race to create it
				Flags:    []string{"--assignment=" + strategy, "--create-stream", "--http-addr=127.0.0.1:0"},
			})
			workers := c.Start(t, 3)
			t.Logf("three started together share after %s", c.WaitShared(t, workers...))
			wantShares(t, c, workers, 22, 21, 21)
			if strategy == "modulo" {
				wantModulo(t, c, workers)
			}
			wantReady(t, workers[0])
			c.Subscribe(t, nil)
			load := c.Produce(t, clustertest.Load{})

			joined := c.Start(t, 1)[0]
			workers = append(workers, joined) // the newest id sorts last
			t.Logf("a fourth has its share after %s", c.WaitShared(t, workers...))
			wantShares(t, c, workers, 16, 16, 16, 16)
			if strategy == "modulo" {
				wantModulo(t, c, workers)
			}
			load.WaitCommitted(t, 200)

			workers[1].Signal(t, syscall.SIGTERM)
			rest := slices.Delete(slices.Clone(workers), 1, 2)
			held := c.WaitHeld(t, rest...)
			t.Logf("the three others hold everything after %s, and share it %s later", held, c.WaitShared(t, rest...))
			if held >= leaseWait {
				t.Errorf("the handover took %s, want less than %s", held, leaseWait)
			}
			if code := workers[1].Exit(t); code != exitOK {
				t.Errorf("the worker that was asked to leave ended with %d", code)
			}
			wantShares(t, c, rest, 22, 21, 21)
			tick := joined.WaitTick(t, "it sees three members", func(k clustertest.Tick) bool {
				return k.Members == 3 && slices.Equal(k.Desired, k.Owned)
			})
			if n := len(tick.Owned); n < 21 || n > 22 {
				t.Errorf("its tick shows %d partitions", n)
			}
			load.WaitCommitted(t, 200)
			c.Verify(t)
		})
	}
}

func wantShares(t *testing.T, c *clustertest.Cluster, workers []*clustertest.Worker, want ...int) {
	t.Helper()
	if got := c.Shares(t, workers...); !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}

// wantModulo wants partition p at the worker in position p mod n by id.
func wantModulo(t *testing.T, c *clustertest.Cluster, workers []*clustertest.Worker) {
	t.Helper()
	owners, err := c.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for p := range clustertest.DefaultPartitions {
		if want := workers[p%len(workers)].ID; owners[p] != want {
			t.Errorf("partition %d is at %s, want %s", p, owners[p], want)
		}
	}
}

func wantReady(t *testing.T, w *clustertest.Worker) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/readyz", "/healthz", "/metrics"} {
		answer, err := client.Get(w.Monitor(t) + path)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", path, answer.Status)
		}
	}
}
