package main

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A connection that its client has given up ends the program, which does not try again for ever.
func TestAClosedConnectionEndsTheConsumer(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, bleveTest(t))
	if err := inbox.Migrate(t.Context(), s.store.pool, ""); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	box, err := inbox.New(s.store.pool, inboxConfig(s.index, s.log, time.Second, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	nc := server.Connect(t)
	ended := make(chan error, 1)
	go func() { ended <- s.consume(t.Context(), nc, box) }()
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
