//go:build containers

package natstest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/container"
)

const (
	// imageVariable names another image whose entry point is nats-server.
	imageVariable = "POSTRIDER_TEST_NATS_IMAGE"
	defaultImage  = "postrider-test/nats:latest"
	configPath    = "/tmp/nats.conf"
	// portAttempts bounds how often ports that were taken in the meantime are replaced.
	portAttempts = 5
)

type member struct {
	name                  string
	client, monitor, peer int // ports
}

// startContainers starts one container per node, which end with the test, and returns the client addresses.
func startContainers(ctx context.Context, t testing.TB, config localnats.Config) (urls string, err error) {
	t.Helper()
	for range portAttempts {
		var stop []func(context.Context) error
		urls, stop, err = tryContainers(ctx, config)
		end := func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
			defer cancel()
			var errs []error
			for _, s := range stop {
				errs = append(errs, s(ctx))
			}
			return errors.Join(errs...)
		}
		if err == nil {
			t.Cleanup(func() {
				if err := end(); err != nil {
					t.Errorf("natstest: %v", err)
				}
			})
			return urls, nil
		}
		taken := container.PortTaken(err)
		err = errors.Join(err, end())
		if !taken {
			break
		}
	}
	return "", err
}

// tryContainers starts the nodes together, as those of a cluster become ready only together. When one fails, the others are not waited for.
func tryContainers(ctx context.Context, config localnats.Config) (_ string, stop []func(context.Context) error, _ error) {
	members, err := planMembers(ctx, cmp.Or(config.Nodes, 1))
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		stop func(context.Context) error
		err  error
	}
	results := make(chan result, len(members))
	for _, m := range members {
		go func() {
			s, err := container.Run(ctx, container.Spec{
				Image:   cmp.Or(os.Getenv(imageVariable), defaultImage),
				Command: []string{"-c", configPath},
				Files:   map[string]string{configPath: m.configuration(config, members)},
				Ready:   func(ctx context.Context) error { return m.ready(ctx, len(members)) },
			})
			results <- result{s, err}
		}()
	}
	var errs []error
	var urls []string
	for _, m := range members {
		r := <-results
		if r.err != nil {
			errs = append(errs, r.err)
			cancel()
		} else {
			stop = append(stop, r.stop)
		}
		urls = append(urls, fmt.Sprintf("nats://%s:%d", loopback.Host, m.client))
	}
	return strings.Join(urls, ","), stop, errors.Join(errs...)
}

func planMembers(ctx context.Context, nodes int) ([]member, error) {
	members := make([]member, nodes)
	for i := range members {
		members[i].name = fmt.Sprintf("postrider-%d", i+1)
		for _, port := range []*int{&members[i].client, &members[i].monitor, &members[i].peer} {
			var err error
			if *port, err = loopback.FreePort(ctx); err != nil {
				return nil, err
			}
		}
	}
	return members, nil
}

func (m member) configuration(config localnats.Config, members []member) string {
	var text strings.Builder
	fmt.Fprintf(&text, "server_name: %s\nlisten: %s:%d\nhttp: %s:%d\n", m.name, loopback.Host, m.client, loopback.Host, m.monitor)
	if config.MaxPayload > 0 {
		fmt.Fprintf(&text, "max_payload: %d\n", config.MaxPayload)
	}
	text.WriteString("jetstream {\n  store_dir: /data\n")
	if config.SyncAlways {
		text.WriteString("  sync_interval: always\n")
	}
	text.WriteString("}\n")
	if len(members) > 1 {
		fmt.Fprintf(&text, "cluster {\n  name: postrider\n  listen: %s:%d\n  routes: [\n", loopback.Host, m.peer)
		for _, other := range members {
			fmt.Fprintf(&text, "    nats://%s:%d\n", loopback.Host, other.peer)
		}
		text.WriteString("  ]\n}\n")
	}
	return text.String()
}

// ready asks the server's monitoring port whether JetStream has caught up and the cluster is complete.
func (m member) ready(ctx context.Context, nodes int) error {
	if err := m.get(ctx, "/healthz", nil); err != nil || nodes == 1 {
		return err
	}
	var state struct {
		Meta struct {
			Leader string `json:"leader"`
			Size   int    `json:"cluster_size"`
		} `json:"meta_cluster"`
	}
	if err := m.get(ctx, "/jsz", &state); err != nil {
		return err
	}
	if state.Meta.Leader == "" || state.Meta.Size != nodes {
		return fmt.Errorf("meta leader %q, %d of %d nodes", state.Meta.Leader, state.Meta.Size, nodes)
	}
	return nil
}

func (m member) get(ctx context.Context, path string, into any) (err error) {
	// One connection per request, so that none is left idle when the test looks for leaked goroutines.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", loopback.Host, m.monitor, path), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
