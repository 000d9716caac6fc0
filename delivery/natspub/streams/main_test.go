package streams_test

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

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
