package natstest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/backend"
)

const (
	startTimeout  = 2 * time.Minute
	streamTimeout = 30 * time.Second
	// requestTimeout is for requests without a deadline: disks that stand still for seconds fail no test.
	requestTimeout = 30 * time.Second
	reconnectWait  = 20 * time.Millisecond
	// codeStoreFailed is the server's code for a stream whose files cannot be made.
	codeStoreFailed = 10049
	// codeNoPeers is the code for a stream with too few servers to lie on.
	codeNoPeers = 10005
	// StreamName is the name of the stream that Stream creates.
	StreamName = "EVENTS"
)

// Server is one server or a cluster of three, which ends with the test that started it.
type Server struct {
	url     string
	cluster *localnats.Cluster // nil on containers
}

// Start launches the number of nodes given, 1 or 3.
func Start(t testing.TB, nodes int) *Server {
	t.Helper()
	return StartWith(t, localnats.Config{Nodes: nodes})
}

// StartWith launches servers with more than the number of nodes chosen. StoreDir, Port and Logger have no effect on containers.
func StartWith(t testing.TB, config localnats.Config) *Server {
	t.Helper()
	if err := config.Validate(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if backend.MustSelect(t) == backend.Containers {
		url, err := startContainers(ctx, t, config)
		backend.Check(t, err)
		return &Server{url: url}
	}
	cluster, err := localnats.Start(ctx, config)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("natstest: %v", err)
		}
	})
	return &Server{url: cluster.URL(), cluster: cluster}
}

// URL returns the client addresses of all nodes, separated by commas.
func (s *Server) URL() string { return s.url }

// Cluster gives access to the nodes, to stop and restart them. On containers it skips the test.
func (s *Server) Cluster(t testing.TB) *localnats.Cluster {
	t.Helper()
	if s.cluster == nil {
		t.Skip("nodes can be stopped and restarted only with " + backend.Variable + "=" + string(backend.Local))
	}
	return s.cluster
}

// Connect opens a connection that ends with the test. It reconnects for ever and buffers nothing meanwhile; options
// come after these and may change them.
func (s *Server) Connect(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(s.url, append([]nats.Option{
		nats.Name(t.Name()), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectBufSize(-1),
		nats.Timeout(requestTimeout),
	}, options...)...)
	if err != nil {
		t.Fatalf("natstest: connect: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// JetStream opens a connection as Connect does and returns its JetStream side.
func (s *Server) JetStream(t testing.TB, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.Connect(t, options...), jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		t.Fatalf("natstest: JetStream: %v", err)
	}
	return js
}

// Stream creates the stream EVENTS with this number of replicas, 1 or 3, after letting each change alter its configuration.
func (s *Server) Stream(t testing.TB, replicas int, changes ...func(*jetstream.StreamConfig)) jetstream.Stream {
	t.Helper()
	config := StreamConfig(replicas)
	for _, change := range changes {
		change(&config)
	}
	ctx, cancel := context.WithTimeout(t.Context(), streamTimeout)
	defer cancel()
	js := s.JetStream(t)
	again := time.NewTicker(reconnectWait)
	defer again.Stop()
	for {
		stream, err := createStream(ctx, js, config)
		if err == nil {
			if len(config.Subjects) > 0 && !config.NoAck {
				s.waitKnown(ctx, t, config.Subjects[0])
			}
			return stream
		}
		if !passing(err) || ctx.Err() != nil {
			t.Fatalf("natstest: create stream %s: %v", config.Name, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// waitKnown returns when clients of each node reach the stream: its leader answers before the others have heard of its subjects.
func (s *Server) waitKnown(ctx context.Context, t testing.TB, subject string) {
	t.Helper()
	probe := nats.NewMsg(strings.NewReplacer("*", "probe", ">", "probe").Replace(subject))
	probe.Header.Set(nats.ExpectedStreamHdr, "no stream of this name") // so that nothing is stored
	again := time.NewTicker(reconnectWait)
	defer again.Stop()
	for node := range strings.SplitSeq(s.url, ",") {
		js, done, err := Attach(node).Ask()
		if err != nil {
			continue // it is down
		}
		for err = nats.ErrNoResponders; errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil; {
			if _, err = js.Conn().RequestMsgWithContext(ctx, probe); err != nil {
				<-again.C
			}
		}
		done()
		if err != nil {
			t.Fatalf("natstest: %s does not know the stream: %v", node, err)
		}
	}
}

// createStream asks once. Nobody answers a request that comes while a cluster changes its leader.
func createStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout/6)
	defer cancel()
	return js.CreateStream(ctx, config)
}

// passing reports whether it is worth asking again: a server may still be removing the files of a stream of that name. A cluster may hold
// an election, or take a returned server for gone.
func passing(err error) bool {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		return refused.ErrorCode == codeStoreFailed || refused.ErrorCode == codeNoPeers || refused.Code == http.StatusServiceUnavailable
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// StreamConfig returns the configuration that Stream starts from.
func StreamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               StreamName,
		Subjects:           []string{"events.>", "outbox.fence.>"},
		Storage:            jetstream.FileStorage,
		Replicas:           replicas,
		Discard:            jetstream.DiscardNew,
		AllowAtomicPublish: true,
	}
}
