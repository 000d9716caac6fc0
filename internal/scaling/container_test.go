//go:build containers

package scaling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/backend"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// image is the one that deploy/testimages/build.sh makes of deploy/docker/Dockerfile.
const image = "postrider-test/postrider:latest"

// gracePeriod is what a stopped container is given; the budget of a worker with the default drain time-out is 15 s.
const gracePeriod = 30 * time.Second

// container is a worker in a container of its own.
type container struct {
	*clustertest.Worker

	name string
	port int
}

// docker runs the engine's command and returns what it printed.
func docker(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

func mustDocker(t *testing.T, args ...string) string {
	t.Helper()
	output, err := docker(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// needEngine ends the test where there is no engine, as the other tests on containers do.
func needEngine(t *testing.T) {
	t.Helper()
	if backend.MustSelect(t) != backend.Containers {
		t.Skip("runs with " + backend.Variable + "=" + string(backend.Containers))
	}
	if _, err := docker(t.Context(), "version"); err != nil {
		backend.Check(t, fmt.Errorf("%w: %w", backend.ErrNoEngine, err))
	}
}

// scale starts n more workers and returns them when they are members. Every container is confined as in deploy/, has a
// host name of its own, by which its row is found, and a port of its own, as all share the network of the host.
func scale(t *testing.T, c *clustertest.Cluster, n int) []*container {
	t.Helper()
	made := make([]*container, n)
	for i := range made {
		port, err := loopback.FreePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := &container{Worker: &clustertest.Worker{}, name: "postrider-scaling-" + uuid.NewString()[:13], port: port}
		made[i] = one
		args := []string{
			"run", "--detach", "--name", one.name, "--hostname", one.name, "--network", "host",
			"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", "256m",
			"--health-interval", "1s", "--stop-timeout", strconv.Itoa(int(gracePeriod.Seconds())),
			"--env", fmt.Sprintf("POSTRIDER_HTTP_ADDR=127.0.0.1:%d", port),
		}
		for _, variable := range c.Environment() {
			args = append(args, "--env", variable)
		}
		mustDocker(t, append(args, image)...)
		t.Cleanup(func() { one.remove(t) })
	}
	for _, one := range made {
		clustertest.Until(t, one.name+" has joined", func(ctx context.Context) (bool, error) {
			err := c.Pool.QueryRow(ctx, `SELECT worker_id FROM outbox_workers WHERE hostname = $1 AND state = 'active'`, one.name).Scan(&one.ID)
			if errors.Is(err, pgx.ErrNoRows) {
				return false, nil
			}
			return err == nil, err
		}, func() string { return one.log(t) })
	}
	return made
}

// remove takes the container away, and shows its log if the test failed.
func (c *container) remove(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
	defer cancel()
	if t.Failed() {
		t.Logf("%s wrote:\n%s", c.name, c.log(t))
	}
	if _, err := docker(ctx, "rm", "--force", "--volumes", c.name); err != nil {
		t.Error(err)
	}
}

func (c *container) log(t *testing.T) string {
	t.Helper()
	output, err := docker(context.WithoutCancel(t.Context()), "logs", "--tail", "50", c.name)
	if err != nil {
		return err.Error()
	}
	return output
}

// state is what the engine says of the container.
type state struct {
	Status    string
	ExitCode  int
	OOMKilled bool
	Health    *struct{ Status string }
}

func (c *container) state(t *testing.T) (s state) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustDocker(t, "inspect", "--format", "{{json .State}}", c.name)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// stop is `docker stop`: SIGTERM, and SIGKILL after the grace period. The worker has to be gone before, by itself and with
// status 0.
func (c *container) stop(t *testing.T) {
	t.Helper()
	began := time.Now()
	mustDocker(t, "stop", c.name)
	took := time.Since(began)
	t.Logf("%s stopped in %s", c.name, took.Round(10*time.Millisecond))
	if s := c.state(t); s.ExitCode != 0 || s.OOMKilled || took >= gracePeriod {
		t.Errorf("%s ended with %+v after %s", c.name, s, took)
	}
}

// waitHealthy waits until the engine's own check, which is that of the image, finds the worker alive.
func (c *container) waitHealthy(t *testing.T) {
	t.Helper()
	clustertest.Until(t, c.name+" is healthy", func(context.Context) (bool, error) {
		s := c.state(t) //nolint:contextcheck // it has the test's
		return s.Status == "running" && s.Health != nil && s.Health.Status == "healthy", nil
	}, func() string { return fmt.Sprintf("%+v", c.state(t)) })
}

func workersOf(containers []*container) []*clustertest.Worker {
	workers := make([]*clustertest.Worker, len(containers))
	for i, c := range containers {
		workers[i] = c.Worker
	}
	return workers
}
