package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// A worker without leasing refuses to start beside leased ones, and works alone.
func TestNoLeasing(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{})
	leased := c.Start(t, 1)[0]
	c.WaitHeld(t, leased)
	s := c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{})

	refused := c.Run(t, "--no-leasing")
	if code := refused.Exit(t); code == exitOK {
		t.Error("a worker without leasing ran beside a leased one")
	}
	if text := refused.Stderr(); !strings.Contains(text, "other workers are running with leases") {
		t.Errorf("it does not say why: %s", text)
	}
	wantShares(t, c, []*clustertest.Worker{leased}, 64)
	load.WaitCommitted(t, 100)
	leased.Signal(t, syscall.SIGTERM)
	wantGone(t, c, leased)

	solo := c.Run(t, "--no-leasing", "--json")
	s.WaitReceived(t, 300)
	if n := c.Count(t, `SELECT count(*) FROM outbox_workers`); n != 0 {
		t.Errorf("%d rows in outbox_workers", n)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL`); n != 0 {
		t.Errorf("%d leases", n)
	}
	c.Verify(t)
	solo.Signal(t, syscall.SIGTERM)
	if code := solo.Exit(t); code != exitOK {
		t.Errorf("it ended with %d", code)
	}
}

// A leased worker that starts beside one without leasing takes over, and the other one ends.
func TestNoLeasingIsFencedByALeasedWorker(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{})
	s := c.Subscribe(t, nil)
	c.Produce(t, clustertest.Load{})
	solo := c.Run(t, "--no-leasing")
	s.WaitReceived(t, 300)
	leased := c.Start(t, 1)[0]
	c.WaitHeld(t, leased)
	if code := solo.Exit(t); code != exitFailed {
		t.Errorf("the worker without leasing ended with %d, want %d", code, exitFailed)
	}
	if text := solo.Stderr(); !strings.Contains(text, "--no-leasing") {
		t.Errorf("it does not say why: %s", text)
	}
	s.WaitReceived(t, 300)
	c.Verify(t)
}

// --once delivers what is there, leaves nothing behind, and ends with 0.
func TestOnce(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, flags := range map[string][]string{
		"with leasing":    {"--once"},
		"without leasing": {"--once", "--no-leasing"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{})
			c.Backlog(t, 3000)
			c.Subscribe(t, nil)
			for range 2 { // the second one has nothing to do
				once := c.Run(t, flags...)
				if code := once.Exit(t); code != exitOK {
					t.Errorf("ended with %d", code)
				}
				if n := c.Count(t, `SELECT count(*) FROM outbox`); n != 0 {
					t.Errorf("%d rows are left", n)
				}
				if n := c.Count(t, `SELECT (SELECT count(*) FROM outbox_workers)
					+ (SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL)`); n != 0 {
					t.Errorf("%d workers and leases are left", n)
				}
			}
			c.Verify(t)
		})
	}
}
