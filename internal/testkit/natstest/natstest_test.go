package natstest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/leaks"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m), leaks.Known()...) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// batchMessage is one of an atomic batch, spelled out in headers.
func batchMessage(subject, batch string, number int) *nats.Msg {
	message := nats.NewMsg(subject)
	message.Header.Set("Nats-Batch-Id", batch)
	message.Header.Set("Nats-Batch-Sequence", strconv.Itoa(number))
	return message
}

// publishBatch sends n messages as one atomic batch and returns the server's answer.
func publishBatch(t *testing.T, conn *nats.Conn, n int) string {
	t.Helper()
	for i := 1; i < n; i++ {
		message := batchMessage("events.parcel.sent", "one", i)
		if i == 1 {
			if _, err := conn.RequestMsgWithContext(deadline(t), message); err != nil {
				t.Fatalf("open the batch: %v", err)
			}
			continue
		}
		if err := conn.PublishMsg(message); err != nil {
			t.Fatal(err)
		}
	}
	last := batchMessage("outbox.fence.0", "one", n)
	last.Header.Set("Nats-Batch-Commit", "1")
	answer, err := conn.RequestMsgWithContext(deadline(t), last)
	if err != nil {
		t.Fatalf("commit the batch: %v", err)
	}
	return string(answer.Data)
}

func TestStreamTakesAtomicBatches(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"one node": 1, "three nodes": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, nodes)
			stream := server.Stream(t, nodes)
			if answer := publishBatch(t, server.Connect(t), 3); !strings.Contains(answer, `"count":3`) {
				t.Fatalf("the batch was answered with %s", answer)
			}
			info, err := stream.Info(deadline(t))
			if err != nil {
				t.Fatal(err)
			}
			if info.State.Msgs != 3 {
				t.Errorf("%d messages in the stream, want 3", info.State.Msgs)
			}
			if info.Config.Replicas != nodes || info.Config.Discard != jetstream.DiscardNew ||
				info.Config.Storage != jetstream.FileStorage {
				t.Errorf("stream configuration is %+v", info.Config)
			}
		})
	}
}

func TestStreamCanBeChanged(t *testing.T) {
	t.Parallel()
	server := natstest.StartWith(t, localnats.Config{SyncAlways: true})
	stream := server.Stream(t, 1, func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 })
	js := server.JetStream(t)
	var err error
	for range 3 {
		_, err = js.Publish(deadline(t), "events.parcel.sent", nil)
	}
	if err == nil || !strings.Contains(err.Error(), "maximum messages") {
		t.Errorf("the third message into a stream for two gave %v", err)
	}
	if got := stream.CachedInfo().Config.MaxMsgs; got != 2 {
		t.Errorf("MaxMsgs is %d", got)
	}
}

func TestEveryTestHasItsOwnServer(t *testing.T) {
	t.Parallel()
	first, second := natstest.Start(t, 1), natstest.Start(t, 1)
	if first.URL() == second.URL() {
		t.Fatal("two servers at one address")
	}
	first.Stream(t, 1)
	second.Stream(t, 1, func(c *jetstream.StreamConfig) { c.Subjects = []string{"other"} })
}

func TestConnectionsSeeANodeGoAndReturn(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	cluster := server.Cluster(t)
	gone, back := make(chan struct{}, 2), make(chan struct{}, 1) // It goes once more when the test ends.
	conn := server.Connect(t,
		nats.DisconnectErrHandler(func(*nats.Conn, error) { gone <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	if err := cluster.StopNode(0); err != nil {
		t.Fatal(err)
	}
	<-gone
	if err := conn.Publish("events.lost", nil); err == nil {
		t.Error("a message was buffered while the server was away")
	}
	if err := cluster.RestartNode(deadline(t), 0); err != nil {
		t.Fatal(err)
	}
	<-back
}

// A server that stops while batches arrive forgets the stores of some: leaks.Known says which goroutines that leaves.
func TestAServerStopsAmidBatches(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	cluster := server.Cluster(t)
	server.Stream(t, 1)
	conn := server.Connect(t, nats.NoReconnect())
	underWay, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for batch := range 1_000_000 {
			if batch == 2_000 {
				close(underWay)
			}
			for part := 1; part <= 2; part++ {
				message := batchMessage("events.parcel.sent", strconv.Itoa(batch), part)
				if part == 2 {
					message.Header.Set("Nats-Batch-Commit", "1")
				}
				if conn.PublishMsg(message) != nil {
					return
				}
			}
		}
	}()
	<-underWay
	if err := cluster.StopNode(0); err != nil {
		t.Error(err)
	}
	conn.Close()
	<-done
}
