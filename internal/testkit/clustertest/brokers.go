package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// brokerVariable makes a test binary a NATS server. It holds a brokerConfig.
const brokerVariable = "POSTRIDER_TEST_BROKER"

type brokerConfig struct {
	Name       string   `json:"name"`
	Port       int      `json:"port"`
	PeerPort   int      `json:"peer_port"`
	Routes     []string `json:"routes"`
	Folder     string   `json:"folder"`
	MaxPayload int32    `json:"max_payload"`
	SyncAlways bool     `json:"sync_always"`
}

// serveBroker runs the server that the environment asks for, until the process is killed.
func serveBroker(text string) error {
	var c brokerConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("%s: %w", brokerVariable, err)
	}
	options := &server.Options{
		ServerName: c.Name, Host: loopback.Host, Port: c.Port, JetStream: true, StoreDir: c.Folder, DisableJetStreamBanner: true,
		MaxPayload: c.MaxPayload, SyncAlways: c.SyncAlways,
	}
	for _, route := range c.Routes {
		peer, err := url.Parse(route)
		if err != nil {
			return fmt.Errorf("%s: %w", brokerVariable, err)
		}
		options.Routes = append(options.Routes, peer)
	}
	if len(c.Routes) > 0 {
		options.Cluster = server.ClusterOpts{Name: "postrider", Host: loopback.Host, Port: c.PeerPort}
	}
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	return nil
}

// Brokers are NATS servers, each a process of its own that can be killed. They end with their test.
type Brokers struct {
	// Server makes clients and streams.
	Server *natstest.Server

	nodes []*broker
}

type broker struct {
	config  brokerConfig
	process *Process
}

// BrokerConfig describes brokers.
type BrokerConfig struct {
	// Nodes is 1 or 3. Defaults to 1.
	Nodes int
	// MaxPayload is the largest message in bytes. Defaults to the server's 1 MiB.
	MaxPayload int
	// SyncAlways forces every write to disk.
	SyncAlways bool
}

// StartBrokers starts the nodes and waits until streams can be made.
func StartBrokers(t testing.TB, config BrokerConfig) *Brokers {
	t.Helper()
	folder := t.TempDir()
	count := max(config.Nodes, 1)
	b := &Brokers{nodes: make([]*broker, count)}
	var routes, urls []string
	for i := range b.nodes {
		c := brokerConfig{
			Name: "broker-" + strconv.Itoa(i+1), Port: freePort(t), PeerPort: freePort(t),
			Folder: filepath.Join(folder, strconv.Itoa(i+1)), MaxPayload: int32(config.MaxPayload), SyncAlways: config.SyncAlways, // a handful of MiB
		}
		routes = append(routes, "nats://"+net.JoinHostPort(loopback.Host, strconv.Itoa(c.PeerPort)))
		urls = append(urls, "nats://"+net.JoinHostPort(loopback.Host, strconv.Itoa(c.Port)))
		b.nodes[i] = &broker{config: c}
	}
	b.Server = natstest.Attach(strings.Join(urls, ","))
	for i := range b.nodes {
		if count > 1 {
			b.nodes[i].config.Routes = routes
		}
		b.launch(t, i)
	}
	b.wait(t)
	return b
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := loopback.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Count returns the number of nodes.
func (b *Brokers) Count() int { return len(b.nodes) }

func (b *Brokers) launch(t testing.TB, i int) {
	t.Helper()
	n := b.nodes[i]
	text, err := json.Marshal(n.config)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), brokerVariable+"="+string(text))
	n.process = begin(t, n.config.Name, cmd)
}

// wait returns when every node can list streams: each has joined, and there is a leader.
func (b *Brokers) wait(t testing.TB) {
	t.Helper()
	var last error
	Until(t, "every broker answers", func(ctx context.Context) (bool, error) {
		for _, n := range b.nodes {
			if last = n.answers(ctx); last != nil {
				return false, nil
			}
		}
		return true, nil
	}, func() string { return fmt.Sprint(last) })
}

// answers asks a node by itself, not its peers.
func (n *broker) answers(ctx context.Context) error {
	js, done, err := natstest.Attach("nats://" + net.JoinHostPort(loopback.Host, strconv.Itoa(n.config.Port))).Ask()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

// Folder returns the place of node i's files, counted from 0. Kill the node before you change them.
func (b *Brokers) Folder(i int) string { return b.nodes[i].config.Folder }

// Kill sends SIGKILL to node i, counted from 0, and returns when it is gone.
func (b *Brokers) Kill(t testing.TB, i int) {
	t.Helper()
	p := b.nodes[i].process
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.ended
}

// Restart starts node i again, with its ports and its data, and returns when it answers: with three nodes, when a quorum is there.
func (b *Brokers) Restart(t testing.TB, i int) {
	t.Helper()
	b.launch(t, i)
	var last error
	Until(t, b.nodes[i].config.Name+" answers again", func(ctx context.Context) (bool, error) {
		last = b.nodes[i].answers(ctx)
		return last == nil, nil
	}, func() string { return fmt.Sprint(last) })
}

// Leader returns the number of the node that leads the stream; with one node, that one.
func (b *Brokers) Leader(t testing.TB) int {
	t.Helper()
	if len(b.nodes) == 1 {
		return 0
	}
	js := b.Server.JetStream(t)
	leader := -1
	Until(t, "the stream has a leader", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, natstest.StreamName)
		if err != nil {
			return false, nil // asked again while there is an election
		}
		for i, n := range b.nodes {
			if cluster := stream.CachedInfo().Cluster; cluster != nil && cluster.Leader == n.config.Name {
				leader = i
			}
		}
		return leader >= 0, nil
	}, nil)
	return leader
}

// WaitCurrent waits until every replica of the stream has caught up.
func (b *Brokers) WaitCurrent(t testing.TB) {
	t.Helper()
	js := b.Server.JetStream(t)
	state := ""
	Until(t, "every replica of the stream is current", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, natstest.StreamName)
		if err != nil {
			state = err.Error()
			return false, nil // asked again while there is an election
		}
		cluster := stream.CachedInfo().Cluster
		if len(b.nodes) == 1 {
			return true, nil
		}
		if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != len(b.nodes)-1 {
			return false, nil
		}
		for _, replica := range cluster.Replicas {
			if !replica.Current || replica.Offline {
				state = fmt.Sprintf("%s: current %v, offline %v, lag %d", replica.Name, replica.Current, replica.Offline, replica.Lag)
				return false, nil
			}
		}
		return true, nil
	}, func() string { return state })
}
