package main

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

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
