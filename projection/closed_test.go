package projection_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/projection"
)

// A projection whose connection or pool will never come back ends instead of waiting for ever.
func TestAProjectionWithoutConnectionsEnds(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]func(projection.Config){
		"NATS":    func(c projection.Config) { c.JetStream.Conn().Close() },
		"pool":    func(c projection.Config) { c.Pool.Close() },
		"journal": func(c projection.Config) { c.Journal.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			js := natstest.Start(t, 1).JetStream(t)
			if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
				t.Fatal(err)
			}
			var config projection.Config
			p := b.make(t, projection.Outbox, func(c *projection.Config) {
				c.JetStream, c.Journal = js, pgtest.Pool(t, b.pool.Config().ConnString())
				config = *c
			})
			b.append(t, events("account", "paid", 1)...)
			ended := make(chan error, 1)
			go func() { ended <- p.Run(t.Context()) }()
			b.until(t, 1, `SELECT count(*) FROM projection.entries`)
			closes(config)
			select {
			case err := <-ended:
				if !errors.Is(err, projection.ErrClosed) {
					t.Errorf("Run returns %v, want %v", err, projection.ErrClosed)
				}
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
			if err := p.Run(t.Context()); !errors.Is(err, projection.ErrClosed) {
				t.Errorf("begun again it returns %v, want %v", err, projection.ErrClosed)
			}
		})
	}
}
