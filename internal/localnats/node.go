package localnats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/internal/loopback"
)

const (
	clusterName = "postrider"
	// pollInterval is the time between two looks at a condition that the server has no signal for.
	pollInterval = 10 * time.Millisecond
	// syncInterval is the server's own default.
	syncInterval = 2 * time.Minute
)

// node is one server: its parts, and the running instance.
type node struct {
	options *server.Options
	server  *server.Server // nil while stopped
	log     *serverLog
}

// planNodes chooses names, ports and folders.
func planNodes(ctx context.Context, config Config, storeDir string) ([]*node, error) {
	nodes := make([]*node, config.Nodes)
	var routes []*url.URL
	for i := range nodes {
		options := &server.Options{
			ServerName:             "postrider-" + strconv.Itoa(i+1),
			Host:                   loopback.Host,
			NoSigs:                 true,
			JetStream:              true,
			DisableJetStreamBanner: true,
			StoreDir:               filepath.Join(storeDir, "node-"+strconv.Itoa(i+1)),
			MaxPayload:             int32(config.MaxPayload),
			SyncAlways:             config.SyncAlways,
			JetStreamLimits:        server.JSLimitOpts{MaxBatchInflightPerStream: config.MaxBatches},
			SyncInterval:           syncInterval,
		}
		if i < len(config.Ports) {
			options.Port = config.Ports[i]
		}
		var err error
		if options.Port == 0 {
			if options.Port, err = loopback.FreePort(ctx); err != nil {
				return nil, err
			}
		}
		if config.Nodes > 1 {
			options.Cluster = server.ClusterOpts{Name: clusterName, Host: loopback.Host}
			if options.Cluster.Port, err = loopback.FreePort(ctx); err != nil {
				return nil, err
			}
			routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort(loopback.Host, strconv.Itoa(options.Cluster.Port))})
		}
		nodes[i] = &node{options: options}
	}
	for _, n := range nodes {
		n.options.Routes = routes
	}
	return nodes, nil
}

// start launches the server without waiting.
func (n *node) start(config Config) error {
	instance, err := server.NewServer(n.options.Clone())
	if err != nil {
		return fmt.Errorf("localnats: configure %s: %w", n.options.ServerName, err)
	}
	n.log = &serverLog{logger: config.Logger.With("nats_server", n.options.ServerName)}
	instance.SetLoggerV2(n.log, false, false, false)
	n.server = instance
	instance.Start()
	return nil
}

// stop ends the server and waits until it is down.
func (n *node) stop() {
	if n.server == nil {
		return
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
}

// ready reports whether clients and JetStream can work with this node, or returns why it never will.
func (n *node) ready() (bool, error) {
	if err := n.log.failure(); err != nil {
		return false, err
	}
	if !n.server.ReadyForConnections(time.Millisecond) || !n.server.JetStreamEnabled() {
		return false, nil
	}
	return !n.server.JetStreamIsClustered() || n.server.JetStreamIsCurrent(), nil
}

func (n *node) url() string {
	return "nats://" + net.JoinHostPort(loopback.Host, strconv.Itoa(n.options.Port))
}

// waitUntil polls the condition until it holds, fails, or the context ends.
func waitUntil(ctx context.Context, what string, holds func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("localnats: wait until %s: %w", what, errors.Join(ctx.Err(), context.Cause(ctx)))
		case <-ticker.C:
		}
	}
}
