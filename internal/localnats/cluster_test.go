package localnats_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m), leaks.Known()...) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, config localnats.Config) *localnats.Cluster {
	t.Helper()
	cluster, err := localnats.Start(deadline(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return cluster
}

func connect(t *testing.T, cluster *localnats.Cluster) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(cluster.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// createStream asks again where no answer comes, as when the leader changes meanwhile; what is refused is an error.
func createStream(t *testing.T, js jetstream.JetStream, replicas int) {
	t.Helper()
	ctx := deadline(t)
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := js.CreateStream(attempt, jetstream.StreamConfig{
			Name: "LEDGER", Subjects: []string{"ledger.>"}, Storage: jetstream.FileStorage, Replicas: replicas,
		})
		unanswered := attempt.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return
		case !unanswered:
			t.Fatal(err)
		}
	}
}

// publish repeats a message that is not acknowledged in time, as happens when the stream's leader is lost.
func publish(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx, id := deadline(t), jetstream.WithMsgID(nuid.Next()) // a busy server stores it once, however often it is asked
	for {
		attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := js.Publish(attempt, "ledger.entry", []byte("x"), id)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("publish: %v", err)
		}
	}
}

// waitReplicated returns when all replicas of the stream are up to date: while one is not, the loss of another may leave
// the stream without a leader for long.
func waitReplicated(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx := deadline(t)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		stream, err := js.Stream(attempt, "LEDGER")
		cancel()
		if err == nil {
			group := stream.CachedInfo().Cluster
			behind := func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline }
			if group.Leader != "" && len(group.Replicas) == 2 && !slices.ContainsFunc(group.Replicas, behind) {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("the replicas do not become current: %v", err)
		}
	}
}

func messages(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(deadline(t), "LEDGER")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

func TestOneNodeKeepsItsDataOverARestart(t *testing.T) {
	t.Parallel()
	cluster := start(t, localnats.Config{SyncAlways: true, MaxPayload: 2 << 20})
	url := cluster.URL()
	js := connect(t, cluster)
	if got := js.Conn().MaxPayload(); got != 2<<20 {
		t.Errorf("MaxPayload is %d", got)
	}
	createStream(t, js, 1)
	publish(t, js)
	if err := cluster.StopNode(0); err != nil {
		t.Fatal(err)
	}
	if cluster.Server(0) != nil {
		t.Error("a stopped node has a server")
	}
	if err := cluster.RestartNode(deadline(t), 0); err != nil {
		t.Fatal(err)
	}
	if cluster.URL() != url {
		t.Errorf("URL changed from %s to %s", url, cluster.URL())
	}
	if got := messages(t, connect(t, cluster)); got != 1 {
		t.Errorf("%d messages after the restart, want 1", got)
	}
}

func TestThreeNodesSurviveTheLossOfEachOne(t *testing.T) {
	t.Parallel()
	cluster := start(t, localnats.Config{Nodes: 3})
	if got := len(strings.Split(cluster.URL(), ",")); got != 3 {
		t.Fatalf("URL %s lists %d nodes", cluster.URL(), got)
	}
	// Needs a leader and all three nodes.
	js := connect(t, cluster)
	createStream(t, js, 3)
	for i := range 3 {
		if err := cluster.StopNode(i); err != nil {
			t.Fatal(err)
		}
		publish(t, js)
		if err := cluster.RestartNode(deadline(t), i); err != nil {
			t.Fatal(err)
		}
		waitReplicated(t, js)
	}
	// A publish repeated after a lost acknowledgement may store more than one.
	if got := messages(t, js); got < 3 {
		t.Errorf("%d messages, want at least 3", got)
	}
}

func TestQuorumReturnsWithTheSecondNode(t *testing.T) {
	t.Parallel()
	cluster := start(t, localnats.Config{Nodes: 3})
	for i := range 2 {
		if err := cluster.StopNode(i); err != nil {
			t.Fatal(err)
		}
	}
	results := make(chan error)
	ctx := deadline(t)
	for i := range 2 {
		go func() { results <- cluster.RestartNode(ctx, i) }()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestStoreDirIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster := start(t, localnats.Config{StoreDir: dir})
	js := connect(t, cluster)
	createStream(t, js, 1)
	publish(t, js)
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.RestartNode(deadline(t), 0); !errors.Is(err, localnats.ErrStopped) {
		t.Errorf("RestartNode after Stop: %v, want ErrStopped", err)
	}
	second := start(t, localnats.Config{StoreDir: dir})
	if got := messages(t, connect(t, second)); got != 1 {
		t.Errorf("%d messages in the second cluster, want 1", got)
	}
}

func TestPortTakenIsReported(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback.Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := localnats.Start(deadline(t), localnats.Config{Ports: []int{port}})
	if err == nil {
		_ = cluster.Stop()
		t.Fatal("started on a port that is taken")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %q does not say why", err)
	}
}

func TestConfigRefusesWhatCannotRun(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]localnats.Config{
		"two nodes": {Nodes: 2}, "ports of three": {Ports: []int{4222, 4223, 4224}}, "port": {Ports: []int{65536}},
		"payload": {MaxPayload: -1},
	} {
		if _, err := localnats.Start(t.Context(), config); !errors.Is(err, localnats.ErrInvalidConfig) {
			t.Errorf("%s: got %v, want ErrInvalidConfig", name, err)
		}
	}
	cluster := start(t, localnats.Config{})
	if err := cluster.StopNode(1); !errors.Is(err, localnats.ErrNoNode) {
		t.Errorf("StopNode(1) of one node: %v, want ErrNoNode", err)
	}
}

func TestUnusableStoreDirIsReported(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := localnats.Start(deadline(t), localnats.Config{StoreDir: file})
	if err == nil {
		_ = cluster.Stop()
		t.Fatal("started with a file for a folder")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the reason was found only by waiting: %v", err)
	}
}
