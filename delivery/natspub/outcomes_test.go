package natspub_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func TestMessagesCarryTheirHeadersAndBody(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	m := newMessage(41, "order-7", "{\"a\":1}\x00\xff")
	m.Generation = 2
	m.Event.RecordedAt = time.Now()
	m.Event.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	m.Event.Headers = map[string]string{"x-user": "7\r\nNats-Rollup: all", "x-secret": "no"}
	w := b.worker(t, 3, 7, natspub.FencedConfig{Shape: wire.Shape{Headers: wire.Headers{Full: true, Forward: []string{"x-user"}}}})
	w.take(t)
	outcomes := w.publish(t, m)
	if outcomes[0].Kind != delivery.Published || outcomes[0].StreamSequence != 3 {
		t.Fatalf("outcome %+v", outcomes[0])
	}
	stored := b.messages(t)[2]
	if stored.Subject != "events.shop.order%2Epaid" || string(stored.Data) != string(m.Event.Payload) {
		t.Errorf("stored %s %q", stored.Subject, stored.Data)
	}
	for name, want := range map[string]string{
		"Outbox-Event-Id": m.Event.ID.String(), "Outbox-Sequence": "41", "Outbox-Partition": "3",
		"Outbox-Stream": "order-7", "Outbox-Stream-Version": "41", "Outbox-Type": "order.paid",
		"Outbox-Generation": "2", "Outbox-Epoch": "", "Nats-Msg-Id": "",
		"traceparent": m.Event.TraceParent, "x-user": "7%0D%0ANats-Rollup: all", "x-secret": "", "Nats-Rollup": "",
	} {
		if got := stored.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if stored.Header.Get("Outbox-Recorded-At") == "" {
		t.Error("--headers full gave no Outbox-Recorded-At")
	}
}

// What a shadow replay sends again is stored once.
func TestTheSameMessageIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	p, err := natspub.NewShadow(b.nc, natspub.ShadowConfig{Prefix: "events.shadow", Stream: "EVENTS"})
	if err != nil {
		t.Fatal(err)
	}
	send := func(m delivery.Message) delivery.Outcome { return p.Publish(t.Context(), []delivery.Message{m})[0] }
	m := newMessage(1, "s", "{}")
	if o := send(m); o.Kind != delivery.Published || o.Duplicate {
		t.Errorf("at first: %+v", o)
	}
	if o := send(m); !o.Duplicate || o.Kind != delivery.Published || o.StreamSequence != 1 {
		t.Errorf("the second time: %+v", o)
	}
	m.Generation = 1 // a requeue must not be swallowed
	if o := send(m); o.Duplicate {
		t.Errorf("another generation was taken for a duplicate: %+v", o)
	}
	if n := len(b.messages(t)); n != 2 {
		t.Errorf("%d messages are stored, want 2", n)
	}
}

// When the server refuses a message, the later ones of its stream must not have been stored already.
func TestNothingOvertakesARefusedMessage(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle) {
		t.Helper()
		w := b.worker(t, 3, 7, natspub.FencedConfig{MaxMessageSize: 1 << 20}) // larger than the stream's
		w.take(t)
		outcomes := w.publish(t,
			newMessage(1, "s", "1"), newMessage(2, "s", strings.Repeat("x", 3000)), newMessage(3, "s", "3"),
			newMessage(4, "other", "4"), newMessage(5, "s", "5"), newMessage(6, "other", "6"),
		)
		want := []delivery.Kind{
			delivery.Published, delivery.Permanent, delivery.Behind, delivery.Published, delivery.Behind, delivery.Published,
		}
		if !slices.Equal(kinds(outcomes), want) {
			t.Errorf("outcomes %v, want %v", kinds(outcomes), want)
		}
		if got, want := b.events(t), []string{"1", "4", "6"}; !slices.Equal(got, want) {
			t.Errorf("stored are %v, want %v", got, want)
		}
	}, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
}

// The limits are known before sending, so a large message fails by itself.
func TestTooLargeMessagesAreNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, inTurn)
	w := b.worker(t, 3, 7, natspub.FencedConfig{MaxMessageSize: 1000})
	w.take(t)
	outcomes := w.publish(t, newMessage(1, "a", strings.Repeat("x", 2<<20)), newMessage(2, "b", strings.Repeat("x", 1000)), newMessage(3, "c", "ok"))
	if got, want := kinds(outcomes), []delivery.Kind{delivery.Permanent, delivery.Permanent, delivery.Published}; !slices.Equal(got, want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	if text := outcomes[0].Err.Error(); !strings.Contains(text, "max_payload") {
		t.Errorf("the first says %q", text)
	}
	if text := outcomes[1].Err.Error(); !strings.Contains(text, "max_msg_size") {
		t.Errorf("the second says %q", text)
	}
}

// A full stream takes no more, and keeps what it has: the closing record waits for room, and the heir finds what was stored.
func TestAFullStreamIsAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }, inTurn)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	messages := []delivery.Message{newMessage(1, "s", "1"), newMessage(2, "s", "2"), newMessage(3, "s", "3")}
	for i, o := range w.publish(t, messages...) {
		if o.Kind != delivery.Unresolved || !errors.Is(o.Err, delivery.ErrOutage) {
			t.Errorf("message %d of a stream that is full: %+v", i, o)
		}
	}
	config := b.stream.CachedInfo().Config
	config.MaxMsgs = -1
	if _, err := b.server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if s := w.take(t); len(s.Delivered) != 1 || s.Delivered[0].Sequence != 1 {
		t.Errorf("the standing is %+v, want the first message", s)
	}
	if o := w.publish(t, messages[1:]...); o[1].Kind != delivery.Published {
		t.Errorf("with room again: %+v", o[1])
	}
	if got, want := b.events(t), []string{"1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("stored are %v, want %v", got, want)
	}
}

// Without an answer the outcome is unknown, and nothing that was sent while the
// connection was down appears later.
func TestALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := natstest.StartWith(t, localnats.Config{Nodes: 1})
	cluster := server.Cluster(t)
	b := bundle{server: server, nc: connect(t, server), stream: server.Stream(t, 1, inTurn)}
	w := b.worker(t, 3, 7, natspub.FencedConfig{AckTimeout: 10 * time.Second})
	w.take(t)
	down := b.nc.StatusChanged(nats.RECONNECTING)
	if err := cluster.StopNode(0); err != nil {
		t.Fatal(err)
	}
	<-down
	outcomes := w.publish(t, newMessage(1, "s", "1"), newMessage(2, "s", "2"))
	if got, want := kinds(outcomes), []delivery.Kind{delivery.Unresolved, delivery.Unresolved}; !slices.Equal(got, want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	if err := outcomes[0].Err; !strings.HasSuffix(err.Error(), "not connected to NATS") || wire.Reason(err) != condition.BrokerAway {
		t.Errorf("without a connection it says %q", err)
	}
	if _, err := w.Extent(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "not connected to NATS") {
		t.Errorf("without a connection a request says %q", err)
	}
	up := b.nc.StatusChanged(nats.CONNECTED)
	if err := cluster.RestartNode(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	<-up
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	if b.stream, err = js.Stream(t.Context(), "EVENTS"); err != nil {
		t.Fatal(err)
	}
	if stored := len(b.messages(t)) - 1; stored != 0 { // beside the fence
		t.Errorf("%d messages that were refused while disconnected appeared later", stored)
	}
	w.take(t)
	if o := w.publish(t, newMessage(3, "s", "3")); o[0].Kind != delivery.Published {
		t.Errorf("after the reconnect: %+v", o[0])
	}
}

// An ended lease publishes nothing more.
func TestNothingIsSentUnderAnEndedLease(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle) {
		t.Helper()
		w := b.worker(t, 3, 7, natspub.FencedConfig{})
		w.take(t)
		w.lease.Lost()
		outcomes := w.publish(t, newMessage(1, "s", "1"), newMessage(2, "t", "2"))
		if got, want := kinds(outcomes), []delivery.Kind{delivery.Unresolved, delivery.Unresolved}; !slices.Equal(got, want) {
			t.Errorf("outcomes %v, want %v", got, want)
		}
		if n := len(b.events(t)); n != 0 {
			t.Errorf("%d messages are stored", n)
		}
	})
}
