package localnats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

var (
	// ErrNoNode means that there is no node of this number.
	ErrNoNode = errors.New("localnats: no such node")
	// ErrStopped is returned by RestartNode after Stop.
	ErrStopped = errors.New("localnats: cluster is stopped")
)

const (
	// portAttempts bounds the replacements of ports that were taken in the meantime.
	portAttempts = 5

	removeTimeout = 5 * time.Second
	removePause   = 10 * time.Millisecond
)

// Cluster is a running set of servers. Its methods may be called from any goroutine.
type Cluster struct {
	config   Config
	storeDir string

	mu      sync.Mutex
	nodes   []*node
	stopped bool
}

// Start launches the servers and returns when they can be used; three nodes take under a second, or as long as an election (up to 9 s) when
// they find data of an earlier run. Errors: ErrInvalidConfig, a server's, or ctx's.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	c := &Cluster{config: config, storeDir: config.StoreDir}
	if c.storeDir == "" {
		dir, err := os.MkdirTemp("", "postrider-nats-")
		if err != nil {
			return nil, fmt.Errorf("localnats: temporary folder: %w", err)
		}
		c.storeDir = dir
	}
	var err error
	for range portAttempts {
		if err = c.launch(ctx); err == nil {
			return c, nil
		}
		c.stopNodesLocked()
		if slices.ContainsFunc(config.Ports, func(port int) bool { return port != 0 }) || !errors.Is(err, ErrPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, c.removeStore())
}

// launch plans and starts all nodes and waits for them.
func (c *Cluster) launch(ctx context.Context) error {
	var err error
	if c.nodes, err = planNodes(ctx, c.config, c.storeDir); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.start(c.config); err != nil {
			return err
		}
	}
	return waitUntil(ctx, "every node is ready", c.readyLocked)
}

// readyLocked reports whether every node is ready and has a leader, all in one look: each can come and go while the first election lasts.
func (c *Cluster) readyLocked() (bool, error) {
	for _, n := range c.nodes {
		if ok, err := n.ready(); !ok || err != nil {
			return false, err
		}
	}
	return c.hasLeaderLocked(), nil
}

// hasLeaderLocked reports whether one node leads JetStream and counts all of the others as peers, stopped ones included.
func (c *Cluster) hasLeaderLocked() bool {
	if len(c.nodes) == 1 {
		return true
	}
	for _, n := range c.nodes {
		if n.server != nil && n.server.JetStreamIsLeader() {
			return len(n.server.JetStreamClusterPeers()) == len(c.nodes)
		}
	}
	return false
}

// URL returns the client addresses of all nodes, separated by commas, stopped ones included.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.url()
	}
	return strings.Join(urls, ",")
}

// Server returns the running server number i, counted from 0, or nil when it is stopped or does not exist.
func (c *Cluster) Server(i int) *server.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < 0 || i >= len(c.nodes) {
		return nil
	}
	return c.nodes[i].server
}

// StopNode shuts node i down, counted from 0, and returns when it is down. Stopping it twice is harmless.
func (c *Cluster) StopNode(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < 0 || i >= len(c.nodes) {
		return fmt.Errorf("%w: %d of %d", ErrNoNode, i, len(c.nodes))
	}
	c.nodes[i].stop()
	return nil
}

// RestartNode starts node i again, counted from 0, with its ports and its data, after stopping it if it still runs.
// It returns when the node has caught up; without a quorum that is never, so give ctx a deadline.
func (c *Cluster) RestartNode(ctx context.Context, i int) error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return ErrStopped
	}
	if i < 0 || i >= len(c.nodes) {
		c.mu.Unlock()
		return fmt.Errorf("%w: %d of %d", ErrNoNode, i, len(c.nodes))
	}
	n := c.nodes[i]
	n.stop()
	err := n.start(c.config)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	// The lock is free while waiting, so that another node can be restarted and complete the quorum.
	return waitUntil(ctx, n.options.ServerName+" is ready", func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n.server == nil {
			return false, fmt.Errorf("localnats: restart %s: %w", n.options.ServerName, ErrStopped)
		}
		ok, err := n.ready()
		return ok && c.hasLeaderLocked(), err
	})
}

// Stop shuts all nodes down, waits for them and removes a temporary StoreDir. Stopping twice is harmless.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	c.stopNodesLocked()
	return c.removeStore()
}

// stopNodesLocked stops all nodes at once: one after the other, each would first wait for an election.
func (c *Cluster) stopNodesLocked() {
	var stopping sync.WaitGroup
	for _, n := range c.nodes {
		stopping.Go(n.stop)
	}
	stopping.Wait()
}

// removeStore tries for a while: a server that has stopped may still write files of a stream.
func (c *Cluster) removeStore() error {
	if c.config.StoreDir != "" {
		return nil
	}
	deadline := time.Now().Add(removeTimeout)
	for {
		err := os.RemoveAll(c.storeDir)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("localnats: remove the temporary folder: %w", err)
		}
		<-time.After(removePause)
	}
}
