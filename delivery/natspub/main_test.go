package natspub_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/leaks"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m), leaks.Known()...) }

func logger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// bundle is a server with the stream and a connection to it.
type bundle struct {
	server *natstest.Server
	nc     *nats.Conn
	stream jetstream.Stream
}

func setup(t *testing.T, nodes int, changes ...func(*jetstream.StreamConfig)) bundle {
	t.Helper()
	server := natstest.Start(t, nodes)
	stream := server.Stream(t, nodes, changes...)
	return bundle{server: server, nc: connect(t, server), stream: stream}
}

func connect(t *testing.T, server *natstest.Server) *nats.Conn {
	t.Helper()
	nc, err := wire.Connect(server.URL(), t.Name(), logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// inTurn has the stream take no batches.
func inTurn(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }

// eachWay runs a test with batches and message by message, on one server and on three.
func eachWay(t *testing.T, test func(t *testing.T, b bundle), changes ...func(*jetstream.StreamConfig)) {
	t.Helper()
	for name, way := range map[string]func(*jetstream.StreamConfig){"in batches": func(*jetstream.StreamConfig) {}, "one by one": inTurn} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s R%d", name, nodes), func(t *testing.T) {
				t.Parallel()
				test(t, setup(t, nodes, append(changes, way)...))
			})
		}
	}
}

// newMessage is an event of a stream key with a body.
func newMessage(sequence int64, stream string, body string) delivery.Message {
	return delivery.Message{
		Pointer: delivery.Pointer{Partition: 3, Sequence: sequence, Stream: stream, Topic: "shop"},
		Event: &delivery.Event{
			Sequence: sequence, ID: uuid.Must(uuid.NewV7()), StreamVersion: sequence, Type: "order.paid",
			Payload: []byte(body), Size: int64(len(body)),
		},
	}
}

// publish publishes one batch.
func publish(t testing.TB, p delivery.Publisher, b delivery.Batch) (outcomes []delivery.Outcome) {
	t.Helper()
	p.Publish([]delivery.Batch{b}, func(_ int, of []delivery.Outcome) { outcomes = of })
	return outcomes
}

func kinds(outcomes []delivery.Outcome) []delivery.Kind {
	list := make([]delivery.Kind, len(outcomes))
	for i, o := range outcomes {
		list[i] = o.Kind
	}
	return list
}

func (b bundle) messages(t *testing.T) []*jetstream.RawStreamMsg {
	t.Helper()
	info, err := b.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []*jetstream.RawStreamMsg
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := b.stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}
