package topologies

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// serve starts a server that keeps its streams in a folder, of the text of a configuration.
func serve(t *testing.T, folder, configuration string) (*server.Server, *server.Options) {
	t.Helper()
	options := &server.Options{}
	if err := options.ProcessConfigString(configuration); err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	options.JetStream, options.StoreDir = true, folder
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the server is not ready")
	}
	return s, options
}

// serveHub starts one that leaf nodes connect to. remote is what these need.
func serveHub(t *testing.T) (hub *server.Server, remote string) {
	t.Helper()
	hub, options := serve(t, t.TempDir(), "server_name: hub\njetstream {domain: hub}\nleafnodes {listen: \"127.0.0.1:-1\"}")
	return hub, fmt.Sprintf("server_name: leaf\njetstream {domain: leaf}\nleafnodes {remotes: [{url: \"nats://127.0.0.1:%d\"}]}", options.LeafNode.Port)
}

// jetStream asks a server's own.
func jetStream(t *testing.T, s *server.Server) (jetstream.JetStream, *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, nc
}

// A mirror at a leaf node, in a domain of its own, has everything in order when its link is back.
func TestALeafNodesMirrorCatchesUp(t *testing.T) {
	t.Parallel()
	hub, remote := serveHub(t)
	h := houseOf(t, clustertest.Config{NATS: natstest.Attach(hub.ClientURL())})
	folder := t.TempDir()
	leaf, _ := serve(t, folder, remote)
	js, _ := jetStream(t, leaf)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "HERE", Mirror: &jetstream.StreamSource{Name: events, Domain: "hub"}}); err != nil {
		t.Fatal(err)
	}
	h.sell(t, 1)
	h.follow(t, js, "HERE")
	leaf.Shutdown()
	leaf.WaitForShutdown()
	h.sell(t, 2)
	leaf, _ = serve(t, folder, remote)
	js, _ = jetStream(t, leaf)
	h.follow(t, js, "HERE")
	here := stored(t, js, "HERE", ">")
	wantSame(t, stored(t, h.js, events, ">"), here)
	wantOrder(t, versions(parsed(t, stored(t, js, "HERE", "events.>"))), 3)
}

// A stream of the leaf node's with the same subjects gets nothing: batches, and messages that expect a record, are for the stream that has
// the records, and single messages name theirs.
func TestALeafNodesStreamTakesTheSameSubjects(t *testing.T) {
	t.Parallel()
	for name, oneByOne := range map[string]bool{"in batches": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub, remote := serveHub(t)
			h := houseOf(t, clustertest.Config{NATS: natstest.Attach(hub.ClientURL()), NoBatches: oneByOne})
			leaf, _ := serve(t, t.TempDir(), remote)
			js, _ := jetStream(t, leaf)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "HERE", Subjects: []string{"events.>"}}); err != nil {
				t.Fatal(err)
			}
			_, nc := jetStream(t, hub)
			hears(t, nc, js, "events.probe.before")
			h.sell(t, 100)
			hears(t, nc, js, "events.probe.after")
			if n := len(stored(t, js, "HERE", "events.shop.>")); n != 0 {
				t.Errorf("the leaf node's stream has %d events", n)
			}
			wantOrder(t, versions(parsed(t, stored(t, h.js, events, "events.shop.>"))), 100)
		})
	}
}

// hears waits until the leaf node's stream has what the hub sent.
func hears(t *testing.T, hub *nats.Conn, leaf jetstream.JetStream, probe string) {
	t.Helper()
	clustertest.Until(t, "the leaf node has "+probe, func(ctx context.Context) (bool, error) {
		if err := hub.Publish(probe, nil); err != nil {
			return false, err
		}
		stream, err := leaf.Stream(ctx, "HERE")
		if err != nil {
			return false, err
		}
		_, err = stream.GetLastMsgForSubject(ctx, probe)
		return err == nil, nil
	}, nil)
}
