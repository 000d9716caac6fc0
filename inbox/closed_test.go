package inbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
)

// A consumer whose connection or pool will never come back ends instead of waiting for ever.
func TestAConsumerWithoutConnectionsEnds(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]func(*reading){
		"NATS": func(r *reading) { r.js.Conn().Close() },
		"pool": func(r *reading) { r.pool.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			r.publish(t, event("s", 1))
			consumer, err := inbox.NewConsumer(r.box, r.js, apply, quick())
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- consumer.Run(t.Context()) }()
			waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
			closes(r)
			select {
			case err := <-ended:
				if !errors.Is(err, inbox.ErrClosed) {
					t.Errorf("Run returns %v, want %v", err, inbox.ErrClosed)
				}
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
			if err := consumer.Run(t.Context()); !errors.Is(err, inbox.ErrClosed) {
				t.Errorf("begun again it returns %v, want %v", err, inbox.ErrClosed)
			}
		})
	}
}
