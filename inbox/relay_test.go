package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/codec"
)

// A real worker writes the messages: compressed above a size, and with the attributes of CloudEvents.
func TestMessagesOfAWorkerThatCompresses(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	c.Start(t, 1, "--compress=zstd:200B", "--cloudevents", "--cloudevents-source=/shop")
	prepare(t, c.Pool)
	if _, err := c.Pool.Exec(t.Context(), `CREATE TABLE bodies (stream text, version bigint, body jsonb, headers text)`); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(c.Pool, inbox.Config{Name: "relay"})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		_, err := tx.Exec(ctx, `INSERT INTO bodies VALUES ($1, $2, $3, $4)`, m.Stream, m.Version, string(m.Payload),
			fmt.Sprintf("%s/%s/%t", m.Header.Get("ce-type"), m.Header.Get("ce-source"), m.Header.Get("ce-id") == m.EventID.String())+
				m.Header.Get(codec.Header))
		return nil, err
	}
	consumer, err := inbox.NewConsumer(box, c.NATS.JetStream(t), handle, quick())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	_, err = c.Pool.Exec(t.Context(), `SELECT outbox_append('order-1', 'order.placed', to_jsonb(repeat('long', n * 1000)))
		FROM generate_series(0, 2) AS n`)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, c.Pool, `SELECT count(*) = 3 FROM bodies`)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	waitFor(t, c.Pool, `SELECT bool_and(b.body = convert_from(e.payload, 'UTF8')::jsonb AND b.headers = 'order.placed//shop/true')
		FROM bodies AS b JOIN events AS e ON e.stream_id = b.stream AND e.stream_version = b.version`)
	// That anything was compressed, the stream knows.
	stream, err := c.NATS.JetStream(t).OrderedConsumer(t.Context(), natstest.StreamName, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"events.>"}, DeliverPolicy: jetstream.DeliverLastPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	last, err := stream.Next()
	if err != nil || last.Headers().Get(codec.Header) != "zstd" {
		t.Fatalf("the worker did not compress: %v, %v", last.Headers(), err)
	}
	m, err := message.FromJetStream(last)
	if err != nil || len(m.Payload) != 8002 || m.Header.Get(codec.Header) != "" || last.Headers().Get(codec.Header) == "" {
		t.Errorf("it reads %d bytes under %v: %v", len(m.Payload), m.Header, err)
	}
}

// compressed is a message as a worker sends it, before anybody took the compression off.
func compressed(t *testing.T, m message.Message, encoding string) message.Message {
	t.Helper()
	compressor, err := codec.NewCompressor(codec.Gzip, 0)
	if err != nil {
		t.Fatal(err)
	}
	body, ok := compressor.Compress(bytes.Repeat([]byte("long"), 1000))
	if !ok {
		t.Fatal("it was not compressed")
	}
	m.Payload, m.Header = body, nats.Header{codec.Header: {encoding}}
	return m
}

// A producer's own header must not make a consumer unpack a thousandfold.
func TestABodyThatBecomesTooLargeIsDead(t *testing.T) {
	t.Parallel()
	compressor, err := codec.NewCompressor(codec.Gzip, 0)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := compressor.Compress(make([]byte, 9<<20))
	bomb := changed(event("s", 1), func(m *message.Message) { m.Payload, m.Header = body, nats.Header{codec.Header: {"gzip"}} })
	for name, try := range map[string]struct {
		limit int
		want  inbox.Status
	}{"as it is": {0, inbox.Dead}, "raised": {9 << 20, inbox.Applied}} {
		b := newBundle(t, func(c *inbox.Config) { c.MaxPayload = try.limit })
		o := b.process(t, bomb, apply)
		if o.Status != try.want || try.want == inbox.Dead && !strings.Contains(o.Err.Error(), "MaxPayload") {
			t.Errorf("%s: %s: %v", name, o.Status, o.Err)
		}
	}
}

func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	broken, seen := true, map[int64]int{}
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if m.Version == 1 && broken {
			return nil, inbox.Final(errors.New("not yet"))
		}
		seen[m.Version] = len(m.Payload)
		return apply(ctx, tx, m)
	}
	b.process(t, compressed(t, event("s", 1), "gzip"), handle)
	dead, err := b.box.Dead(t.Context(), 1)
	if err != nil || len(dead) != 1 || len(dead[0].Payload) != 4000 {
		t.Fatalf("what is parked is shown as %d bytes: %v", len(dead[0].Payload), err)
	}
	broken = false
	if _, err := b.box.Requeue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.retryUntil(t, handle, nothingParked)
	// An encoding that no worker writes is for the handler.
	own := compressed(t, event("s", 2), "br")
	b.process(t, own, handle)
	if seen[1] != 4000 || seen[2] != len(own.Payload) {
		t.Errorf("the handler saw bodies of %v bytes", seen)
	}
	// One that is damaged holds its stream and stays as it came.
	damaged := compressed(t, event("s", 3), "zstd")
	if o := b.process(t, damaged, handle); o.Status != inbox.Dead || !errors.Is(o.Err, message.ErrMalformed) {
		t.Errorf("a damaged body is %s: %v", o.Status, o.Err)
	}
	if o := b.process(t, event("s", 4), handle); o.Status != inbox.Waiting {
		t.Errorf("its successor is %s", o.Status)
	}
	if dead, err := b.box.Dead(t.Context(), 1); err != nil || !bytes.Equal(dead[0].Payload, damaged.Payload) {
		t.Errorf("the damaged body was not kept: %v", err)
	}
}
