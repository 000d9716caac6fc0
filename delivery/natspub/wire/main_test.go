package wire_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
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

func connect(t *testing.T, server *natstest.Server) *nats.Conn {
	t.Helper()
	nc, err := wire.Connect(server.URL(), t.Name(), logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
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
