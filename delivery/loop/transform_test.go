package loop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/rewrite"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/message/codec"
)

func transforms(list ...shape.Transform) loop.Config { return loop.Config{Transforms: list} }

// upcast makes version 2 of an event: an amount in cents with its currency.
func upcast(_ context.Context, d *shape.Draft) error {
	if d.Type != "thing.done" {
		return nil
	}
	var old struct {
		Amount int `json:"amount"`
	}
	if err := json.Unmarshal(d.Payload, &old); err != nil {
		return err
	}
	d.Type, d.Topic = "thing.done.v2", "things"
	d.Payload = fmt.Appendf(nil, `{"cents":%d,"currency":"EUR"}`, old.Amount*100)
	return nil
}

func TestTransformsChangeWhatIsPublished(t *testing.T) {
	t.Parallel()
	eachStoring(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		sequence := b.append(t, "s", `{"amount": 7}`)
		second := func(_ context.Context, d *shape.Draft) error { // it sees what the first one made
			if d.Type != "thing.done.v2" || d.Sequence != sequence || d.Stream != "s" || d.StreamVersion != 1 || d.OccurredAt.IsZero() {
				return fmt.Errorf("unexpected draft %+v", d)
			}
			d.Payload = bytes.ReplaceAll(d.Payload, []byte("EUR"), []byte("CHF"))
			d.ID, d.Sequence, d.Stream, d.StreamVersion = uuid.Nil, 99, "forged", 99
			return nil
		}
		b.acquireAll(t, b.keeper)
		b.drain(t, b.relay(t, transforms(upcast, second)))
		var got []string
		b.eachEvent(t, func(m jetstream.Msg) {
			h := m.Headers()
			got = append(got, m.Subject(), string(m.Data()), h.Get("Outbox-Type"), h.Get("Outbox-Stream"), h.Get("Outbox-Sequence"), h.Get("Outbox-Stream-Version"))
			if h.Get("Outbox-Event-Id") == uuid.Nil.String() {
				t.Error("a transform changed the event's id")
			}
		})
		want := []string{"events.things.thing%2Edone%2Ev2", `{"cents":700,"currency":"CHF"}`, "thing.done.v2", "s", fmt.Sprint(sequence), "1"}
		if !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
		b.until(t, `SELECT count(*) FROM events WHERE event_type = 'thing.done' AND convert_from(payload, 'UTF8') LIKE '%amount%'`, 1)
	})
}

// Whatever a hook does to one event, its neighbours flow, and what waits behind it is its own stream.
func TestAFailingTransformHarmsOnlyItsStream(t *testing.T) {
	t.Parallel()
	eachStoring(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		misdeeds := []struct {
			name   string
			do     func(d *shape.Draft) error
			state  string
			reason string
		}{
			{"error", func(*shape.Draft) error { return errors.New("no such customer") }, "failed", "no such customer"},
			{"panic", func(*shape.Draft) error { panic("index out of order") }, "failed", "panic: index out of order"},
			{"nil", func(d *shape.Draft) error { d.Headers = nil; d.Headers["a"] = "b"; return nil }, "failed", "nil map"},
			{"goexit", func(*shape.Draft) error { runtime.Goexit(); return nil }, "failed", "ended its goroutine"},
			{"permanent", func(*shape.Draft) error { return fmt.Errorf("%w: unknown version", shape.ErrPermanent) }, "dead", "unknown version"},
			{"type", func(d *shape.Draft) error { d.Type = "a\r\nNats-Rollup: all"; return nil }, "dead", "new Type"},
			{"no type", func(d *shape.Draft) error { d.Type = ""; return nil }, "dead", "new Type"},
			{"topic", func(d *shape.Draft) error { d.Topic = strings.Repeat("x", 1025); return nil }, "dead", "new Topic"},
			{"tenant", func(d *shape.Draft) error { d.TenantID = "\xff"; return nil }, "dead", "new TenantID"},
			{"header", func(d *shape.Draft) error { d.Headers = map[string]string{"Nats-Rollup": "all"}; return nil }, "dead", "new headers"},
			{"value", func(d *shape.Draft) error { d.Headers = map[string]string{"a": "b\nc"}; return nil }, "dead", "new headers"},
			{"payload", func(d *shape.Draft) error { d.Payload = make([]byte, 5000); return nil }, "dead", "new payload has 5000 bytes"},
		}
		index := map[string]func(*shape.Draft) error{}
		sequences := map[string]int64{}
		var neighbours []string
		for _, m := range misdeeds {
			index[m.name] = m.do
			sequences[m.name] = b.append(t, m.name, `1`)
			neighbours = append(neighbours, texts(b.append(t, "neighbour", `1`))...)
			b.append(t, m.name, `2`)
		}
		cfg := transforms(func(_ context.Context, d *shape.Draft) error {
			if do := index[d.Stream]; do != nil && string(d.Payload) == "1" {
				return do(d)
			}
			return nil
		})
		cfg.MaxPayload = 4096
		cfg.Retry = delivery.RetryPolicy{Base: time.Hour, Factor: 1, Max: time.Hour, Jitter: delivery.JitterNone, MaxAttempts: 8}
		b.acquireAll(t, b.keeper)
		b.drain(t, b.relay(t, cfg))
		if got := sequencesOf(b.stored(t), "neighbour"); !slices.Equal(got, neighbours) {
			t.Errorf("the neighbours are %v, want %v", got, neighbours)
		}
		for _, m := range misdeeds {
			if s := b.state(t, sequences[m.name]); s.State != m.state || s.Attempts != 1 || !strings.Contains(*s.LastError, m.reason) {
				t.Errorf("%s: %+v %v", m.name, s, *s.LastError)
			}
			if got := sequencesOf(b.stored(t), m.name); len(got) != 0 {
				t.Errorf("%s: %v was published", m.name, got)
			}
		}
		b.until(t, `SELECT count(*) FROM outbox WHERE blocked`, len(misdeeds))
	})
}

// What a hook does to its draft before it fails is not there at the next attempt.
func TestAnAttemptBeginsWithWhatIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `{"secret":"abc"}`)
	attempts := 0
	cfg := transforms(func(_ context.Context, d *shape.Draft) error {
		if attempts++; string(d.Payload) != `{"secret": "abc"}` {
			return fmt.Errorf("%w: attempt %d begins with %s", shape.ErrPermanent, attempts, d.Payload)
		}
		copy(d.Payload, `{"secret": "***"}`)
		if attempts < 3 {
			return errors.New("later")
		}
		return nil
	})
	cfg.Retry = delivery.RetryPolicy{Base: time.Millisecond, Factor: 1, Max: time.Millisecond, Jitter: delivery.JitterNone}
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, cfg))
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	b.eachEvent(t, func(m jetstream.Msg) {
		if string(m.Data()) != `{"secret": "***"}` || attempts != 3 {
			t.Errorf("attempt %d published %s", attempts, m.Data())
		}
	})
}

// A hook that never returns costs its message an attempt and the others little time. When too many hang, the relay waits, and
// nothing is counted.
func TestTransformsThatHang(t *testing.T) {
	t.Parallel()
	eachStoring(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		const hanging = 20 // more than may hang at once
		for i := range hanging {
			b.append(t, fmt.Sprintf("hangs-%d", i), `1`)
			b.append(t, "neighbour", `1`)
		}
		release := make(chan struct{})
		var open, called atomic.Int64
		cfg := transforms(func(_ context.Context, d *shape.Draft) error {
			if strings.HasPrefix(d.Stream, "hangs") {
				called.Add(1)
				open.Add(1)
				defer open.Add(-1)
				<-release
			}
			return nil
		})
		cfg.TransformTimeout = 400 * time.Millisecond // the others need less, also on a busy machine
		cfg.Retry = delivery.RetryPolicy{Base: time.Hour, Factor: 1, Max: time.Hour, Jitter: delivery.JitterNone}
		b.acquireAll(t, b.keeper)
		r := b.relay(t, cfg)
		stop := b.start(t, r)
		b.until(t, `SELECT count(*) FROM outbox WHERE attempts = 1 AND last_error LIKE '%no result in time, within 400ms%'`, 16)
		b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 15)
		b.wait(t, "the relay says that too many hang", func() bool { return strings.Contains(fmt.Sprint(r.Stats().Errors), "16 of them run past their time") })
		if n := open.Load(); n != 16 {
			t.Errorf("%d hooks hang at once", n)
		}
		close(release) // they go on, and so does everything else
		b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published' AND stream_id = 'neighbour'`, hanging)
		stop()
		if n := called.Load(); n != hanging {
			t.Errorf("%d hooks were begun, want %d", n, hanging)
		}
		b.until(t, `SELECT count(*) FROM outbox WHERE attempts = 0`, 0)
	})
}

func (b *bundle) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// A message that is published again, by another owner, has the same headers and the same bytes.
func TestPublishedAgainIsTheSame(t *testing.T) {
	t.Parallel()
	for _, encoding := range []codec.Encoding{"", codec.Zstd, codec.S2, codec.Gzip} {
		t.Run("encoded as "+string(encoding), func(t *testing.T) {
			t.Parallel()
			eachStoring(t, 3, func(t *testing.T, b *bundle) {
				t.Helper()
				secret, err := rewrite.ParsePointer("/customer/email")
				if err != nil {
					t.Fatal(err)
				}
				rules := rewrite.Rules{Redactions: []rewrite.Redaction{{Pointer: secret}}, Renames: map[string]string{"thing.done": "thing.finished"}}
				for i := range 30 {
					b.append(t, fmt.Sprintf("s-%d", i%5), fmt.Sprintf(`{"customer":{"email":"a@b.example","n":%d},"text":"%s"}`, i, strings.Repeat("abc ", 500)))
				}
				cfg := transforms(rules.Transform())
				b.acquireAll(t, b.keeper)
				b.drain(t, b.full(t, encoding, cfg))
				first := b.byEvent(t)
				remake(t, b) // the stream loses everything
				b.succeed(t)
				b.drain(t, b.full(t, encoding, cfg))
				again := b.byEvent(t)
				if len(first) != 30 || len(again) != 30 {
					t.Fatalf("published %d events, then %d", len(first), len(again))
				}
				for id, text := range first {
					if again[id] != text {
						t.Errorf("event %s was\n%q, then\n%q", id, text, again[id])
					}
				}
			})
		})
	}
}

// full is a relay with everything that shapes a message.
func (b *bundle) full(t *testing.T, encoding codec.Encoding, cfg loop.Config) *loop.Relay {
	t.Helper()
	var c *codec.Compressor
	var err error
	if encoding != "" {
		if c, err = codec.NewCompressor(encoding, 1000); err != nil {
			t.Fatal(err)
		}
	}
	headers := wire.Headers{Full: true, CloudEvents: &wire.CloudEvents{Source: "/test", ContentType: "application/json"}}
	return b.relayOver(t, b.publisherOf(t, wire.Shape{Headers: headers, Compressor: c}), cfg)
}

// byEvent is each event's message as text, redacted and renamed.
func (b *bundle) byEvent(t *testing.T) map[string]string {
	t.Helper()
	return b.byEventOf(t, streams.DefaultStream, "events.>")
}

// byEventOf is each event's message as text, without what belongs to one publication.
func (b *bundle) byEventOf(t *testing.T, stream, filter string) map[string]string {
	t.Helper()
	found := map[string]string{}
	b.each(t, stream, filter, func(m jetstream.Msg) {
		h := m.Headers()
		for _, name := range []string{"Nats-Msg-Id", "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit", "Nats-Expected-Stream", "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"} {
			h.Del(name)
		}
		var lines []string
		for name, values := range h {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
		slices.Sort(lines)
		id := h.Get("Outbox-Event-Id")
		found[id] = fmt.Sprintf("%s\n%s\n\n%s", m.Subject(), strings.Join(lines, "\n"), m.Data())
		body, err := codec.Body(h, m.Data(), 0)
		if err != nil || bytes.Contains(body, []byte("a@b.example")) || !json.Valid(body) || h.Get("Outbox-Type") != "thing.finished" {
			t.Errorf("%v: %v %s", err, h, body)
		}
	})
	return found
}
