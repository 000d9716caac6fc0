package faultproxy_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// post is a stream, directly and by way of a proxy.
type post struct {
	proxy  *faultproxy.NATS
	stream jetstream.Stream
	conn   *nats.Conn // by way of the proxy
	js     jetstream.JetStream
	gone   chan struct{} // the connection broke
	back   chan struct{}
}

func newPost(t *testing.T) *post {
	t.Helper()
	server := natstest.Start(t, 1)
	b := &post{
		proxy: faultproxy.StartNATS(t, server.URL()), stream: server.Stream(t, 1),
		gone: make(chan struct{}, 16), back: make(chan struct{}, 16),
	}
	b.conn = b.connect(t, b.proxy.URL(),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { b.gone <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { b.back <- struct{}{} }))
	var err error
	if b.js, err = jetstream.New(b.conn); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *post) connect(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(patience),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// publish waits for the acknowledgement as long as ctx lets it, and sends once.
func (b *post) publish(ctx context.Context, subject string, data []byte) error {
	_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, jetstream.WithRetryAttempts(0))
	return err
}

// stored waits until the stream holds these messages, in this order, and no more.
func (b *post) stored(t *testing.T, subjects ...string) {
	t.Helper()
	var got []string
	eventually(t, strings.Join(subjects, " ")+" is stored", func() bool {
		info, err := b.stream.Info(deadline(t))
		return err == nil && info.State.Msgs >= uint64(len(subjects))
	})
	info := b.stream.CachedInfo()
	for sequence := uint64(1); sequence <= info.State.LastSeq; sequence++ {
		message, err := b.stream.GetMsg(deadline(t), sequence)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, message.Subject)
	}
	if strings.Join(got, " ") != strings.Join(subjects, " ") {
		t.Errorf("the stream holds %q, want %q", got, subjects)
	}
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func wait(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-deadline(t).Done():
		t.Fatalf("waited in vain for %s", what)
	}
}

func TestDropMessages(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	got := make(chan string, 16)
	if _, err := b.conn.Subscribe("events.>", func(m *nats.Msg) { got <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	drop := b.proxy.DropMessages(faultproxy.PubAck)
	if err := b.publish(short(t), "events.one", []byte("a")); err == nil {
		t.Error("the acknowledgement arrived")
	}
	b.stored(t, "events.one")
	if _, err := b.js.Stream(deadline(t), natstest.StreamName); err != nil { // other answers pass
		t.Error(err)
	}
	if subject := <-got; subject != "events.one" {
		t.Errorf("the subscription got %q", subject)
	}
	if n := drop.Stop(); n != 1 {
		t.Errorf("%d messages were dropped", n)
	}
	if err := b.publish(deadline(t), "events.two", nil); err != nil {
		t.Error(err)
	}
	if len(b.gone) != 0 {
		t.Error("the connection broke")
	}
	if got := b.proxy.Counters().DroppedMessages; got != 1 {
		t.Errorf("counted %d", got)
	}
}

func TestCutAtAck(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	trigger := b.proxy.CutAtAck(faultproxy.PubAck)
	published := make(chan error, 1)
	go func() { published <- b.publish(deadline(t), "events.one", nil) }()
	struck(t, trigger.Fired())
	wait(t, "the disconnection", b.gone)
	wait(t, "the reconnection", b.back)
	b.conn.Close() // ends what waits for the answer
	if err := <-published; err == nil {
		t.Error("the acknowledgement arrived")
	}
	b.stored(t, "events.one")
	if got := b.proxy.Counters(); got.CutAtAcks != 1 || got.Connections != 2 {
		t.Errorf("counted %s", got)
	}
}

// The server has the last byte of the message, and the client never hears of it.
func TestCutAfterPub(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	large := bytes.Repeat([]byte("abc\r\n"), 200_000)
	trigger := b.proxy.CutAfterPub(func(m faultproxy.Message) bool {
		return m.Subject == "events.two" && m.Get("Kind") == "large" && m.Get("Nothing") == "" && bytes.Equal(m.Payload, large)
	})
	for _, m := range []*nats.Msg{
		{Subject: "events.two", Data: large},
		{Subject: "events.two", Data: []byte("small"), Header: nats.Header{"Kind": {"large"}}},
		{Subject: "events.two", Data: large, Header: nats.Header{"Other": {"header"}, "Kind": {"large"}}},
	} {
		if err := b.conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	_ = b.conn.Flush() // fails, or comes too late
	struck(t, trigger.Fired())
	wait(t, "the disconnection", b.gone)
	b.stored(t, "events.two", "events.two", "events.two")
	message, err := b.stream.GetMsg(deadline(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(message.Data, large) || message.Header.Get("Kind") != "large" {
		t.Errorf("it was stored with %d bytes and %v", len(message.Data), message.Header)
	}
	wait(t, "the reconnection", b.back)
	if err := b.publish(deadline(t), "events.three", nil); err != nil {
		t.Error(err)
	}
}

func TestMessagesArriveLate(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	b.proxy.Hold(faultproxy.ClientToServer)
	if err := b.publish(short(t), "events.one", nil); err == nil {
		t.Fatal("the acknowledgement arrived")
	}
	b.conn.Close()
	if info, err := b.stream.Info(deadline(t)); err != nil || info.State.Msgs != 0 {
		t.Fatalf("%+v and %v before the release", info, err)
	}
	b.proxy.Release()
	b.stored(t, "events.one")
}

// A client that reconnects and goes on is overtaken by its own past.
func TestMessagesArriveBehindTheNextConnection(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	b.proxy.HoldPresent(faultproxy.ClientToServer)
	if err := b.publish(short(t), "events.old", nil); err == nil {
		t.Fatal("the acknowledgement arrived")
	}
	b.proxy.HangUp()
	wait(t, "the disconnection", b.gone)
	wait(t, "the reconnection", b.back)
	if err := b.publish(deadline(t), "events.new", nil); err != nil {
		t.Fatal(err)
	}
	b.proxy.Release()
	b.stored(t, "events.new", "events.old")
}

// An acknowledgement is lost in a one-way partition, and the client cannot know.
func TestBlackholeLosesAcknowledgements(t *testing.T) {
	t.Parallel()
	b := newPost(t)
	b.proxy.Blackhole(faultproxy.ServerToClient, true)
	if err := b.publish(short(t), "events.one", nil); err == nil {
		t.Fatal("the acknowledgement arrived")
	}
	b.stored(t, "events.one")
	b.proxy.Heal()
	wait(t, "the disconnection", b.gone)
	wait(t, "the reconnection", b.back)
}

// A cluster would tell its clients the way past the proxy.
func TestNodesAreHidden(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 3)
	url, _, _ := strings.Cut(server.URL(), ",")
	p := faultproxy.StartNATS(t, url)
	b := &post{}
	direct := b.connect(t, url)
	eventually(t, "the server tells of its cluster", func() bool { return len(direct.DiscoveredServers()) == 2 })
	conn := b.connect(t, p.URL())
	if found := conn.DiscoveredServers(); len(found) != 0 {
		t.Errorf("the client knows of %q", found)
	}
}

func TestOtherProtocolsFailTheTest(t *testing.T) {
	t.Parallel()
	s := listen(t)
	for name, start := range map[string]func(*recorder) *faultproxy.Proxy{
		"NATS":       func(r *recorder) *faultproxy.Proxy { return faultproxy.StartNATS(r, "nats://"+s.address).Proxy },
		"PostgreSQL": func(r *recorder) *faultproxy.Proxy { return faultproxy.StartPostgres(r, "postgres://"+s.address).Proxy },
	} {
		r := &recorder{TB: t}
		c := connect(t, start(r), s)
		const hello = "\x16\x03\x01 this could be TLS"
		write(t, c.client, hello)
		expect(t, c.server, hello)
		write(t, c.server, hello)
		expect(t, c.client, hello)
		if said := r.said(); len(said) != 1 || !strings.Contains(said[0], name) {
			t.Errorf("%s: the failures are %q", name, said)
		}
	}
}
