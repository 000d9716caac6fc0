package main

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A caller whose connection to NATS is closed for good ends: nothing would come in any more, and it would run on.
func TestAClosedConnectionEndsTheCaller(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.URL(t))
	if err := inbox.Migrate(t.Context(), pool, ""); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	nc := server.Connect(t)
	ended := make(chan error, 1)
	go func() { ended <- serveCalls(t.Context(), pool, nc, callerConfig{Log: slog.New(slog.DiscardHandler)}) }()
	nc.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, inbox.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}
