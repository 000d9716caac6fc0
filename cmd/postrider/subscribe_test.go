package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// The consumer that hears nothing stands for one that the server has forgotten.
func TestAConsumerThatStandsStillIsLeft(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t, 1).JetStream(t)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>", "other.>"}})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(subject string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish("events.a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []string
	r := reader{
		js: js, subscription: subscription{stream: "EVENTS", filter: "events.>", from: jetstream.DeliverAllPolicy}, quiet: 50 * time.Millisecond,
		receive: func(m jetstream.Msg) error {
			if got = append(got, m.Subject()); len(got) == 2 {
				stop()
			}
			return nil
		},
	}
	deaf, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"other.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.read(ctx, deaf); !errors.Is(err, errStandsStill) {
		t.Fatalf("a consumer that delivers nothing of a stream with messages: %v, want %v", err, errStandsStill)
	}
	r.quiet = time.Minute // what follows is only slow, where the machine is
	// One that is gone with its server stands for the client's own that wait for it.
	gone, _ := r.another(ctx)
	if err := stream.DeleteConsumer(ctx, gone.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	if err := r.read(ctx, gone); !errors.Is(err, errStandsStill) {
		t.Fatalf("a consumer that is gone: %v, want %v", err, errStandsStill)
	}
	publish("events.b")
	if err := r.readAnother(ctx); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != "events.a" || got[1] != "events.b" {
		t.Errorf("received %q", got)
	}
}

func (r *reader) readAnother(ctx context.Context) error {
	consumer, err := r.another(ctx)
	return cmp.Or(err, r.read(ctx, consumer))
}

// A stream that was made anew is read from its beginning: its sequences are others.
func TestAStreamMadeAnewIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t, 1).JetStream(t)
	// In memory: files of a stream that was deleted a millisecond ago can be found by the one that is made in its place.
	config := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Storage: jetstream.MemoryStorage}
	fill := func(subjects ...string) {
		t.Helper()
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			if _, err := js.Publish(t.Context(), subject, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for from, want := range map[jetstream.DeliverPolicy][]string{
		jetstream.DeliverAllPolicy: {"events.a", "events.b", "events.c", "events.d"}, jetstream.DeliverNewPolicy: {"events.c", "events.d"},
	} {
		fill("events.a", "events.b")
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		var got []string
		r := reader{js: js, subscription: subscription{stream: "EVENTS", filter: "events.>", from: from}, quiet: time.Minute}
		r.receive = func(m jetstream.Msg) error {
			switch got = append(got, m.Subject()); m.Subject() {
			case "events.b":
				return errStandsStill
			case "events.d":
				stop()
			}
			return nil
		}
		first, _ := r.another(ctx)
		if from == jetstream.DeliverAllPolicy {
			if err := r.read(ctx, first); !errors.Is(err, errStandsStill) {
				t.Fatal(err)
			}
		}
		if err := js.DeleteStream(ctx, "EVENTS"); err != nil {
			t.Fatal(err)
		}
		fill("events.c", "events.d")
		if err := r.readAnother(ctx); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %v it received %q, want %q", from, got, want)
		}
		stop()
		if err := js.DeleteStream(t.Context(), "EVENTS"); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that was delivered and did not come is asked for again.
func TestAMessageThatIsLostOnTheWayIsReadAgain(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	for _, subject := range []string{"events.a", "events.b"} {
		if _, err := server.JetStream(t).Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	proxy := faultproxy.StartNATS(t, server.URL())
	nc, err := wire.Connect(proxy.URL(), t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var came atomic.Int64
	proxy.DropMessages(func(m faultproxy.Message) bool { return m.Subject == "events.a" && came.Add(1) == 1 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []string
	sub := subscription{stream: natstest.StreamName, filter: "events.>", from: jetstream.DeliverAllPolicy}
	if err := subscribe(ctx, nc, sub, func() {}, func(m jetstream.Msg) error {
		if got = append(got, m.Subject()); m.Subject() == "events.b" {
			stop()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"events.a", "events.b"}; !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

// A connection that the client has given up ends who follows a stream, instead of having him wait for ever.
func TestASubscriberWithoutAConnectionEnds(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	nc, err := wire.Connect(server.URL(), t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub := subscription{stream: "EVENTS", filter: "events.>", from: jetstream.DeliverAllPolicy}
	if _, err := server.JetStream(t).Publish(t.Context(), "events.one", []byte("1")); err != nil {
		t.Fatal(err)
	}
	err = subscribe(t.Context(), nc, sub, func() {}, func(jetstream.Msg) error { nc.Close(); return nil })
	if !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("it returns %v, want %v", err, nats.ErrConnectionClosed)
	}
}

// A broker that falls silent is not the end of its stream, and what is under way for longer than the idle time is waited for.
func TestTailTakesSilenceForNoEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		durable bool
		lasting bool // nothing comes from the broker any more
		code    int
		says    string
	}{
		"silent": {lasting: true, code: exitFailed, says: "does not say whether it holds more"}, "late": {code: exitOK, says: "2 messages without"},
		"durable, silent": {durable: true, lasting: true, code: exitFailed, says: "does not say whether it holds more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, 1)
			server.Stream(t, 1)
			for _, subject := range []string{"events.a.a", "events.a.b"} {
				if _, err := server.JetStream(t).Publish(t.Context(), subject, nil); err != nil {
					t.Fatal(err)
				}
			}
			proxy := faultproxy.StartNATS(t, server.URL())
			var silent atomic.Bool
			proxy.DropMessages(func(m faultproxy.Message) bool {
				return m.Subject == "events.a.b" && !silent.Swap(true) || c.lasting && silent.Load()
			})
			args := []string{"tail", "--nats-url=" + proxy.URL(), "--all", "--count", "--idle-exit=1s"}
			if c.durable {
				args = append(args, "--durable=d")
			}
			code, _, stderr := call(t, args...)
			if code != c.code || !strings.Contains(stderr, c.says) {
				t.Errorf("status %d: %s", code, stderr)
			}
		})
	}
}
