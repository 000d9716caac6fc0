//go:build containers

package scaling_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// One worker becomes four and then two, under load: nothing is lost, reordered or stored twice, each stopped container
// ends by itself, and everybody has its share soon.
func TestScaleUnderLoad(t *testing.T) { //nolint:paralleltest // it measures time
	needEngine(t)
	c := clustertest.New(t, clustertest.Config{Partitions: 32, NATS: natstest.Start(t, 3), Replicas: 3})
	c.Subscribe(t, nil)
	workers := scale(t, c, 1)
	c.WaitShared(t, workersOf(workers)...)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 1000)

	workers = append(workers, scale(t, c, 3)...)
	t.Logf("four share all partitions after %s", c.WaitShared(t, workersOf(workers)...))
	for _, w := range workers {
		w.waitHealthy(t)
	}
	load.WaitCommitted(t, 2000)

	for _, w := range workers[:2] { // the oldest one, too
		w.stop(t)
		if n := c.Count(t, `SELECT count(*) FROM outbox_workers WHERE worker_id = $1`, w.ID); n != 0 {
			t.Errorf("%s left its row behind", w.name)
		}
	}
	workers = workers[2:]
	t.Logf("two share all partitions after %s", c.WaitShared(t, workersOf(workers)...))
	load.WaitCommitted(t, 2000)
	c.Verify(t)
	for _, w := range workers {
		w.stop(t)
		if log := w.log(t); strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("%s complains: %s", w.name, log)
		}
	}
}

// A container that is killed is followed within the lease's time, and one that takes its place joins.
func TestKilledContainerIsReplaced(t *testing.T) { //nolint:paralleltest // it measures time
	needEngine(t)
	c := clustertest.New(t, clustertest.Config{Partitions: 16})
	c.Subscribe(t, nil)
	workers := scale(t, c, 2)
	c.WaitShared(t, workersOf(workers)...)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 500)
	mustDocker(t, "kill", workers[0].name)
	t.Logf("taken over after %s", c.WaitHeld(t, workers[1].Worker))
	workers = append(workers[1:], scale(t, c, 1)...)
	c.WaitShared(t, workersOf(workers)...)
	load.WaitCommitted(t, 500)
	c.Verify(t)
}

// The image holds what it should and nothing else, and says what it is.
func TestImage(t *testing.T) { //nolint:paralleltest // it belongs to the others
	needEngine(t)
	if out := mustDocker(t, "run", "--rm", "--network", "none", image, "version"); !strings.HasPrefix(out, "postrider ") {
		t.Errorf("version: %s", out)
	}
	if _, err := docker(t.Context(), "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", image); err == nil {
		t.Error("the image has a shell")
	}
	format := "{{.Config.User}} {{json .Config.Entrypoint}} {{json .Config.Cmd}} {{json .Config.Healthcheck.Test}} " +
		`{{index .Config.Labels "org.opencontainers.image.title"}} {{index .Config.Labels "org.opencontainers.image.licenses"}}`
	const want = `65532:65532 ["/usr/bin/postrider"] ["run"] ["CMD","/usr/bin/postrider","healthcheck"] Postrider Apache-2.0`
	if got := mustDocker(t, "image", "inspect", "--format", format, image); got != want {
		t.Errorf("the image is\n%s, want\n%s", got, want)
	}
	_, err := docker(t.Context(), "run", "--rm", "--network", "none", "--read-only", "--env", "DATABASE_URL=postgres://a@127.0.0.1:1/x", image)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without a database it ends with %v", err)
	}
}
