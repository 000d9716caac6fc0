package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/message/codec"
)

func (b *bundle) reader(t *testing.T, cfg loop.Config) *loop.EventReader {
	t.Helper()
	return b.readerFor(t, cfg, nil)
}

func (b *bundle) readerFor(t *testing.T, cfg loop.Config, can func() delivery.Capabilities) *loop.EventReader {
	t.Helper()
	cfg.Logger = testLogger(t)
	r, err := loop.NewEventReader(cfg, b.store, can)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pointersOf are the outbox's rows, which must not be published yet.
func (b *bundle) pointersOf(t *testing.T) []delivery.Pointer {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT partition_key, global_sequence, stream_id, topic FROM outbox ORDER BY global_sequence`)
	if err != nil {
		t.Fatal(err)
	}
	var list []delivery.Pointer
	for rows.Next() {
		var p delivery.Pointer
		if err := rows.Scan(&p.Partition, &p.Sequence, &p.Stream, &p.Topic); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return list
}

// What a Reader gives to a publisher of the same shape is what a relay publishes: transformed, with all headers, compressed.
func TestAReaderShapesAsTheRelayDoes(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	for i := range 30 {
		b.append(t, fmt.Sprintf("s-%d", i%5), fmt.Sprintf(`{"email":"a@b.example","n":%d,"text":"%s"}`, i, strings.Repeat("abc ", 500)),
			`metadata => '{"correlation_id": "c7", "causation_id": "c6", "headers": {"x-user": "u7"}}'`)
	}
	cfg := transforms(func(_ context.Context, d *shape.Draft) error {
		d.Type, d.TenantID = "thing.finished", "t1"
		d.Headers["x-more"] = d.Stream
		d.Payload = []byte(strings.Replace(string(d.Payload), "a@b.example", "***", 1))
		return nil
	})
	pointers := b.pointersOf(t)
	c, err := codec.NewCompressor(codec.Zstd, 1000)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := wire.ParseSubject("events.{tenant}.{topic}.{type}")
	if err != nil {
		t.Fatal(err)
	}
	shape := wire.Shape{Subject: subject, Compressor: c, Headers: wire.Headers{
		Full: true, CloudEvents: &wire.CloudEvents{Source: "/test"},
	}}
	b.acquireAll(t, b.keeper)
	publisher := b.publisherOf(t, shape)
	r, err := loop.NewRelay(cfg, b.store, publisher, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	b.drain(t, r)

	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}); err != nil {
		t.Fatal(err)
	}
	shadow, err := natspub.NewShadow(b.nc, natspub.ShadowConfig{Prefix: "replay.1", Stream: "REPLAYS", Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	readings, err := b.reader(t, cfg).Read(t.Context(), pointers)
	if err != nil || len(readings) != 30 {
		t.Fatalf("%d readings, %v", len(readings), err)
	}
	var messages []delivery.Message
	for _, one := range readings {
		if one.Err != nil || one.Skip {
			t.Fatalf("%+v", one)
		}
		messages = append(messages, one.Message)
	}
	for i, o := range shadow.Publish(t.Context(), messages) {
		if o.Kind != delivery.Published {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	live, past := b.byEventOf(t, streams.DefaultStream, "events.>"), b.byEventOf(t, "REPLAYS", "replay.>")
	if len(live) != 30 || len(past) != 30 {
		t.Fatalf("published %d, and %d past the relay", len(live), len(past))
	}
	for id, text := range live {
		if past[id] != "replay.1."+text {
			t.Errorf("event %s was\n%q, and past the relay\n%q", id, text, past[id])
		}
		for _, said := range []string{"c7", "c6", "u7", "x-more"} {
			if !strings.Contains(text, said) {
				t.Errorf("event %s does not carry %q: %q", id, said, text)
			}
		}
	}
}

// A Reader gives what fits, tells of each event that cannot be published, and waits while transforms hang.
func TestAReaderTellsWhatCannotBePublished(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for _, name := range []string{"fine", "fails", "gone", "audit", "slow", "late"} {
		b.append(t, name, `1`)
	}
	pointers := b.pointersOf(t)
	b.exec(t, `DELETE FROM events WHERE stream_id = 'gone'`)
	b.exec(t, `UPDATE events SET audit_only = true WHERE stream_id = 'audit'`)
	hang := make(chan struct{})
	cfg := transforms(func(_ context.Context, d *shape.Draft) error {
		switch d.Stream {
		case "fails":
			return errors.New("no such customer")
		case "slow":
			<-hang
		}
		return nil
	})
	cfg.TransformTimeout = 50 * time.Millisecond
	r := b.reader(t, cfg)
	readings, err := r.Read(t.Context(), pointers)
	if err != nil || len(readings) != 5 { // nothing behind a hook that was left behind
		t.Fatalf("%d readings, %v", len(readings), err)
	}
	for i, want := range []error{nil, shape.ErrTransform, delivery.ErrEventMissing, nil, shape.ErrTransform} {
		if got := readings[i]; !errors.Is(got.Err, want) || got.Skip != (i == 3) {
			t.Errorf("reading %d: %+v, want %v", i, got, want)
		}
	}
	slow := pointers[4:5]
	for n := 1; ; n++ {
		if _, err = r.Read(t.Context(), slow); err != nil {
			break
		}
		if n > 20 {
			t.Fatal("transforms are begun without end")
		}
	}
	if !errors.Is(err, shape.ErrTransform) {
		t.Errorf("with too many hanging: %v", err)
	}
	close(hang)
	b.wait(t, "transforms are begun again", func() bool {
		readings, err := r.Read(t.Context(), pointers[5:])
		return err == nil && len(readings) == 1 && readings[0].Err == nil
	})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(cancelled, pointers); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}
