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
)

// In dedupe mode the order of the whole partition is kept by waiting for each
// answer: when one stays out, nothing behind it has been sent, whatever its stream.
func TestPartitionOrderWaitsForEachAnswer(t *testing.T) {
	t.Parallel()
	for order, want := range map[delivery.Ordering][]delivery.Kind{
		delivery.OrderPartition: {delivery.Published, delivery.Unresolved, delivery.Unresolved, delivery.Unresolved},
		delivery.OrderStream:    {delivery.Published, delivery.Unresolved, delivery.Unresolved, delivery.Published},
	} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1, func(c *jetstream.StreamConfig) { c.Subjects = []string{"events.shop.>"} })
			work := batch(newMessage(1, "a", "1"), newMessage(2, "b", "2"), newMessage(3, "b", "3"), newMessage(4, "c", "4"))
			work.Order = order
			work.Messages[1].Topic = "elsewhere" // nobody answers
			outcomes := publish(t, b.publisher(t, natspub.DedupeConfig{}), work)
			if !slices.Equal(kinds(outcomes), want) {
				t.Errorf("outcomes %v, want %v", kinds(outcomes), want)
			}
			stored := 0
			for _, k := range want {
				if k == delivery.Published {
					stored++
				}
			}
			if got := len(b.messages(t)); got != stored {
				t.Errorf("%d messages are stored, want %d", got, stored)
			}
		})
	}
}

// Whatever the mode, a connection that sends later what was refused now is no
// connection to publish over.
func TestFencedRefusesABufferingConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	nc, err := nats.Connect(b.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := natspub.NewFenced(nc, natspub.FencedConfig{}); !errors.Is(err, natspub.ErrConfig) || !strings.Contains(err.Error(), "ReconnectBufSize") {
		t.Errorf("a connection with a reconnect buffer: %v", err)
	}
}
