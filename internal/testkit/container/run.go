//go:build containers

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"

	"github.com/postrider/postrider/internal/testkit/backend"
)

const (
	// reaperVariable switches the helper container of testcontainers off, whose image comes from a registry.
	reaperVariable = "TESTCONTAINERS_RYUK_DISABLED"
	hostNetwork    = "host"
	probeInterval  = 50 * time.Millisecond
	quotedLog      = 2000
)

// Spec describes a container.
type Spec struct {
	Image   string
	Command []string
	Env     map[string]string
	Files   map[string]string // path in the container → content
	// Ready looks once whether the server can be used.
	Ready func(context.Context) error
}

// Run starts the container and waits until it is ready. The function returned removes it.
func Run(ctx context.Context, spec Spec) (stop func(context.Context) error, err error) {
	if _, set := os.LookupEnv(reaperVariable); !set {
		if err := os.Setenv(reaperVariable, "true"); err != nil {
			return nil, fmt.Errorf("container: %w", err)
		}
	}
	provider, err := openEngine(ctx)
	if err != nil {
		return nil, err
	}
	request := testcontainers.ContainerRequest{
		Image: spec.Image,
		Cmd:   spec.Command,
		Env:   spec.Env,
		HostConfigModifier: func(host *container.HostConfig) {
			host.NetworkMode = hostNetwork
		},
	}
	for path, content := range spec.Files {
		request.Files = append(request.Files, testcontainers.ContainerFile{
			Reader: strings.NewReader(content), ContainerFilePath: path, FileMode: 0o644,
		})
	}
	started, err := provider.RunContainer(ctx, request)
	if started == nil {
		return nil, errors.Join(fmt.Errorf("container: run %s: %w", spec.Image, err), provider.Close())
	}
	stop = func(ctx context.Context) error {
		return errors.Join(started.Terminate(ctx, testcontainers.StopTimeout(0)), provider.Close())
	}
	if err == nil {
		err = waitReady(ctx, started, spec.Ready)
	}
	if err != nil {
		err = fmt.Errorf("container: run %s: %w\n%s", spec.Image, err, lastLines(ctx, started))
		return nil, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	return stop, nil
}

// PortTaken reports whether a server could not listen because somebody else does.
func PortTaken(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

// openEngine connects to the Docker engine and asks it for a sign of life. Naming the host's network as the default
// one keeps testcontainers from creating a bridge where the engine has none.
func openEngine(ctx context.Context) (provider *testcontainers.DockerProvider, err error) {
	// Looking for the engine's address panics where there is none.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %v", backend.ErrNoEngine, reason)
		}
	}()
	provider, err = testcontainers.NewDockerProvider(
		testcontainers.WithDefaultBridgeNetwork(hostNetwork), quiet{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrNoEngine, err)
	}
	if err := provider.Health(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrNoEngine, errors.Join(err, provider.Close()))
	}
	return provider, nil
}

// waitReady probes until the server answers, its container ends, or the context does.
func waitReady(ctx context.Context, started testcontainers.Container, ready func(context.Context) error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		state, err := started.State(ctx)
		if err != nil {
			return err
		}
		if !state.Running {
			return fmt.Errorf("it ended with status %d", state.ExitCode)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

// lastLines returns the end of the container's log, or why there is none.
func lastLines(ctx context.Context, started testcontainers.Container) string {
	reader, err := started.Logs(context.WithoutCancel(ctx))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = reader.Close() }() // It was only read.
	content, err := io.ReadAll(reader)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-quotedLog):])
}

// quiet keeps progress messages out of the test output.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// ApplyDockerTo makes it an option of the provider.
func (q quiet) ApplyDockerTo(options *testcontainers.DockerProviderOptions) { options.Logger = q }
