package natspub_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// Message by message the order of the whole partition is kept by waiting for each answer: when one stays out, nothing behind it
// has been sent, whatever its stream.
func TestPartitionOrderWaitsForEachAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, func(c *jetstream.StreamConfig) { c.Subjects = []string{"events.shop.>", "outbox.fence.>"} }, inTurn)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	messages := []delivery.Message{newMessage(1, "a", "1"), newMessage(2, "b", "2"), newMessage(3, "b", "3"), newMessage(4, "c", "4")}
	messages[1].Topic = "elsewhere" // nobody answers
	for i, o := range w.publish(t, messages...) {
		if o.Kind != delivery.Unresolved || i > 0 && !errors.Is(o.Err, delivery.ErrOutage) {
			t.Errorf("message %d: %+v, want it unresolved: no record closes it", i, o)
		}
	}
	if got, want := b.events(t), []string{"1"}; !slices.Equal(got, want) {
		t.Errorf("stored are %v, want %v", got, want)
	}
}

// A connection that sends later what was refused now is no connection to publish over.
func TestABufferingConnectionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	nc, err := nats.Connect(b.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := natspub.NewFenced(nc, natspub.FencedConfig{}); !errors.Is(err, wire.ErrConfig) || !strings.Contains(err.Error(), "ReconnectBufSize") {
		t.Errorf("a connection with a reconnect buffer: %v", err)
	}
}
