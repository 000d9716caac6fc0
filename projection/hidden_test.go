package projection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/projection"
)

// News behind a message that the client takes for an answer of the server is heard, without the sweep.
func TestNewsBehindWhatTheClientHidesIsHeard(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	js := natstest.Start(t, 1).JetStream(t)
	if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.JetStream, c.SweepInterval, c.PollInterval = js, time.Hour, time.Minute
	})
	b.start(t, p)
	b.append(t, events("first", "paid", 1)...)
	publish(t, js, "first", "1")
	b.until(t, 1, `SELECT count(*) FROM projection.entries`)
	const many = 50
	for n := range many {
		b.append(t, events(fmt.Sprint("s-", n), "paid", 1)...)
	}
	hidden := nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}
	if _, err := js.PublishMsgAsync(&nats.Msg{Subject: "events.x", Header: hidden}); err != nil {
		t.Fatal(err)
	}
	for n := range many {
		header := nats.Header{"Outbox-Stream": {fmt.Sprint("s-", n)}, "Outbox-Stream-Version": {"1"}}
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: "events.default.paid", Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	began, applied := time.Now(), 0
	for tick := time.NewTicker(100 * time.Millisecond); applied < many+1 && time.Since(began) < 100*time.Second; <-tick.C {
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM projection.entries`).Scan(&applied); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d of %d within %s", applied, many+1, time.Since(began)); applied < many+1 {
		t.Error("the rest was never heard of")
	}
}
