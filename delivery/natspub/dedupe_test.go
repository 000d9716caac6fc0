package natspub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
)

func TestMessagesCarryTheirHeadersAndBody(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	m := newMessage(41, "order-7", "{\"a\":1}\x00\xff")
	m.Generation = 2
	m.Event.RecordedAt = time.Now()
	m.Event.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	m.Event.Headers = map[string]string{"x-user": "7\r\nNats-Rollup: all", "x-secret": "no"}
	p := b.publisher(t, natspub.DedupeConfig{Shape: natspub.Shape{Headers: natspub.Headers{Full: true, Forward: []string{"x-user"}}}})
	outcomes := publish(t, p, batch(m))
	if outcomes[0].Kind != delivery.Published || outcomes[0].StreamSequence != 1 || outcomes[0].Duplicate {
		t.Fatalf("outcome %+v", outcomes[0])
	}
	stored := b.messages(t)[0]
	if stored.Subject != "events.shop.order%2Epaid" || string(stored.Data) != string(m.Event.Payload) {
		t.Errorf("stored %s %q", stored.Subject, stored.Data)
	}
	for name, want := range map[string]string{
		"Outbox-Event-Id": m.Event.ID.String(), "Outbox-Sequence": "41", "Outbox-Partition": "3",
		"Outbox-Stream": "order-7", "Outbox-Stream-Version": "41", "Outbox-Type": "order.paid",
		"Outbox-Generation": "2", "Outbox-Epoch": "7", "Nats-Msg-Id": m.Event.ID.String() + ":2",
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

func TestTheSameMessageIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	p := b.publisher(t, natspub.DedupeConfig{})
	m := newMessage(1, "s", "{}")
	publish(t, p, batch(m))
	again := publish(t, p, batch(m))
	if !again[0].Duplicate || again[0].Kind != delivery.Published || again[0].StreamSequence != 1 {
		t.Errorf("the second time: %+v", again[0])
	}
	m.Generation = 1 // a requeue must not be swallowed
	if o := publish(t, p, batch(m)); o[0].Duplicate {
		t.Errorf("another generation was taken for a duplicate: %+v", o[0])
	}
	if n := len(b.messages(t)); n != 2 {
		t.Errorf("%d messages are stored, want 2", n)
	}
}

// When the server refuses a message, the later ones of its stream must not have
// been stored already. A plain pipeline would have stored them.
func TestNothingOvertakesARefusedMessage(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("R%d", nodes), func(t *testing.T) {
			t.Parallel()
			b := setup(t, nodes, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
			p := b.publisher(t, natspub.DedupeConfig{})
			outcomes := publish(t, p, batch(
				newMessage(1, "s", "1"), newMessage(2, "s", strings.Repeat("x", 3000)), newMessage(3, "s", "3"),
				newMessage(4, "other", "4"), newMessage(5, "s", "5"), newMessage(6, "other", "6"),
			))
			want := []delivery.Kind{
				delivery.Published, delivery.Permanent, delivery.Behind, delivery.Published, delivery.Behind, delivery.Published,
			}
			if !slices.Equal(kinds(outcomes), want) {
				t.Errorf("outcomes %v, want %v", kinds(outcomes), want)
			}
			for _, m := range b.messages(t) {
				if seq := m.Header.Get(message.HeaderSequence); seq == "3" || seq == "5" {
					t.Errorf("message %s overtook the refused one", seq)
				}
			}
		})
	}
}

// The limits are known before sending, so a large message fails by itself.
func TestTooLargeMessagesAreNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	p := b.publisher(t, natspub.DedupeConfig{MaxMessageSize: 1000})
	outcomes := publish(t, p, batch(
		newMessage(1, "a", strings.Repeat("x", 2<<20)), newMessage(2, "b", strings.Repeat("x", 1000)), newMessage(3, "c", "ok")))
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

func TestAFullStreamIsAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	p := b.publisher(t, natspub.DedupeConfig{})
	outcomes := publish(t, p, batch(newMessage(1, "s", "1"), newMessage(2, "s", "2"), newMessage(3, "s", "3")))
	if got, want := kinds(outcomes), []delivery.Kind{delivery.Published, delivery.Unresolved, delivery.Unresolved}; !slices.Equal(got, want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	if !errors.Is(outcomes[1].Err, delivery.ErrOutage) {
		t.Errorf("a full stream is %v, want %v", outcomes[1].Err, delivery.ErrOutage)
	}
}

func TestAMissingStreamIsAnOutageAndAnotherStreamIsConfiguration(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	p := b.publisher(t, natspub.DedupeConfig{Stream: "ANOTHER"})
	if o := publish(t, p, batch(newMessage(1, "s", "1"))); !errors.Is(o[0].Err, delivery.ErrConfiguration) || !strings.Contains(o[0].Err.Error(), "EVENTS") {
		t.Errorf("another stream answered: %+v", o[0])
	}
	subject, err := natspub.ParseSubject("nowhere.{type}")
	if err != nil {
		t.Fatal(err)
	}
	p = b.publisher(t, natspub.DedupeConfig{Shape: natspub.Shape{Subject: subject}})
	if o := publish(t, p, batch(newMessage(1, "s", "1"))); !errors.Is(o[0].Err, delivery.ErrOutage) {
		t.Errorf("nobody answered: %+v", o[0])
	}
}

// Without an answer the outcome is unknown, and nothing that was sent while the
// connection was down appears later.
func TestALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	server := natstest.StartWith(t, localnats.Config{Nodes: 1})
	server.Stream(t, 1)
	cluster := server.Cluster(t)
	b := bundle{server: server, nc: connect(t, server)}
	p := b.publisher(t, natspub.DedupeConfig{AckTimeout: 10 * time.Second})
	down := b.nc.StatusChanged(nats.RECONNECTING)
	if err := cluster.StopNode(0); err != nil {
		t.Fatal(err)
	}
	<-down
	outcomes := publish(t, p, batch(newMessage(1, "s", "1"), newMessage(2, "s", "2")))
	if got, want := kinds(outcomes), []delivery.Kind{delivery.Unresolved, delivery.Unresolved}; !slices.Equal(got, want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	if err := outcomes[0].Err; !strings.HasSuffix(err.Error(), "not connected to NATS") || natspub.Reason(err) != condition.BrokerAway {
		t.Errorf("without a connection it says %q", err)
	}
	if _, err := p.Extent(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "not connected to NATS") {
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
	if stored := b.messages(t); len(stored) != 0 {
		t.Errorf("%d messages that were refused while disconnected appeared later", len(stored))
	}
	if o := publish(t, p, batch(newMessage(3, "s", "3"))); o[0].Kind != delivery.Published {
		t.Errorf("after the reconnect: %+v", o[0])
	}
}

// An ended lease publishes nothing more.
func TestNothingIsSentUnderAnEndedLease(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	work := batch(newMessage(1, "s", "1"), newMessage(2, "t", "2"))
	work.Lease.Lost()
	outcomes := publish(t, b.publisher(t, natspub.DedupeConfig{}), work)
	if got, want := kinds(outcomes), []delivery.Kind{delivery.Unresolved, delivery.Unresolved}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if n := len(b.messages(t)); n != 0 {
		t.Errorf("%d messages are stored", n)
	}
}

func TestABufferingConnectionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	nc, err := nats.Connect(b.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := natspub.NewDedupe(nc, natspub.DedupeConfig{}); !errors.Is(err, natspub.ErrConfig) || !strings.Contains(err.Error(), "ReconnectBufSize") {
		t.Errorf("a connection with a reconnect buffer: %v", err)
	}
}

func TestReservedHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Nats-Msg-Id", "nats-rollup", "Outbox-Epoch", "", "a b", "a:b", "a\r\nb"} {
		if err := (natspub.Headers{Forward: []string{name}}).Validate(); !errors.Is(err, natspub.ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
