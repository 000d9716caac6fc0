//go:build matrix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Workers of an earlier build are replaced one by one by those of this one while events flow, and these by earlier ones again.
func TestRolling(t *testing.T) {
	t.Parallel()
	earlier, present := os.Getenv("POSTRIDER_EARLIER"), clustertest.Binary(t)
	if earlier == "" {
		t.Fatal("POSTRIDER_EARLIER does not name the earlier build: make test/rolling does")
	}
	database := pgtest.URL(t)
	first, later := migrations(t, earlier), migrations(t, present)
	ahead := strings.HasPrefix(later, first)
	if ahead {
		migrate(t, earlier, database)
	} else { // as long as nothing is released, migrations change
		t.Log("the earlier build has other migrations: the tables are this one's from the beginning")
		migrate(t, present, database)
	}
	c := clustertest.New(t, clustertest.Config{Partitions: partitions, DatabaseURL: database, Flags: []string{"--lease-ttl=3s"}})
	workers := c.StartBuild(t, earlier, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 200)
	if ahead {
		migrate(t, present, database) // while the old workers run, as docs/operations.md says
		load.WaitCommitted(t, 100)
	}
	for _, build := range []string{present, earlier} {
		roll(t, c, load, workers, build)
	}
	c.Verify(t)
}

// roll replaces the workers. The first is killed: of what it had under way a worker of either build finds in the stream what arrived.
func roll(t *testing.T, c *clustertest.Cluster, load *clustertest.Producer, workers []*clustertest.Worker, build string) {
	t.Helper()
	for i, old := range workers {
		signal, status := syscall.SIGTERM, 0
		if i == 0 {
			signal, status = syscall.SIGKILL, -1
		}
		old.Signal(t, signal)
		if got := old.Exit(t); got != status {
			t.Fatalf("a worker ended with %d: %s", got, old.Stderr())
		}
		workers[i] = c.StartBuild(t, build, 1)[0]
		c.WaitHeld(t, workers...)
		load.WaitCommitted(t, 100)
	}
}

func migrations(t *testing.T, build string) string {
	t.Helper()
	return call(t, build, nil, "migrate", "print")
}

func migrate(t *testing.T, build, database string) {
	t.Helper()
	call(t, build, []string{"DATABASE_URL=" + database}, "migrate", "up", "--partitions=12")
}

// call runs a command of a build.
func call(t *testing.T, build string, environment []string, args ...string) string {
	t.Helper()
	p := clustertest.LaunchBinary(t, "postrider "+strings.Join(args, " "), build, environment, args...)
	if status := p.Exit(t); status != 0 {
		t.Fatalf("postrider %s of %s ended with %d: %s", strings.Join(args, " "), build, status, p.Stderr())
	}
	return p.Stdout()
}
