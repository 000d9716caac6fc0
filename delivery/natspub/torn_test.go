package natspub_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/lease/leasetest"
)

// cramped is a stream of one server, and a way to give its account so much room.
func cramped(t *testing.T) (*server.Server, bundle, func(bytes int64)) {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	s := started(t, options, &server.User{Username: "relay", Password: "relay"})
	b := bundle{nc: login(t, s, "relay")}
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	if b.stream, err = js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	return s, b, func(bytes int64) {
		limits := server.JetStreamAccountLimits{
			MaxMemory: -1, MaxStore: bytes, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
		}
		if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
			t.Error(err)
		}
	}
}

// A server of one stream that comes to its account's limit stores the first messages of a batch. Whoever takes the partition finds these, be
// it the owner or an heir, and the others come behind them: none twice. Nor does an owner that sends the batch again take it for whole.
func TestATornBatchIsNotStoredTwice(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"owner", "heir", "owner that sends it again"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s, b, room := cramped(t)
			proxy := faultproxy.StartNATS(t, "nats://"+s.Addr().String())
			nc, err := wire.Connect(strings.Replace(proxy.URL(), "nats://", "nats://relay:relay@", 1), who, logger(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			old := &worker{Fenced: b.fenced(t, nc, natspub.FencedConfig{AckTimeout: time.Second}), lease: leasetest.Held(3, 7)}
			old.take(t)
			old.publish(t, newMessage(1, "s", "before"))
			room(30 << 10)
			var batches atomic.Int32
			if who == "owner that sends it again" {
				proxy.CutAfterPub(func(m faultproxy.Message) bool { // nothing is cut: there is room before the second attempt
					if isFence(m) && batches.Add(1) == 2 {
						room(-1)
					}
					return false
				})
			}
			messages := make([]delivery.Message, 200)
			for i := range messages {
				messages[i] = newMessage(int64(i+2), "s", strings.Repeat("x", 200))
			}
			for i, o := range old.publish(t, messages...) {
				if o.Kind != delivery.Unresolved {
					t.Fatalf("message %d of a batch that has no room: %+v", i, o)
				}
			}
			room(-1)
			stored := len(b.events(t)) - 1
			if stored == 0 || stored == len(messages) {
				t.Fatalf("%d of %d are stored: the batch is not torn", stored, len(messages))
			}
			w := old
			if who == "heir" {
				w = &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, 8)}
			}
			found := w.take(t)
			for range 2 { // the second time behind a fence
				if n := len(found.Delivered); n != stored || found.Delivered[n-1].Sequence != int64(n+1) || found.Kept != found.Delivered[n-1].StreamSequence {
					t.Errorf("%d are stored; the standing is kept up to %d, with %d delivered", stored, found.Kept, n)
				}
				found = w.take(t)
			}
			for i, o := range w.publish(t, messages[stored:]...) {
				if o.Kind != delivery.Published {
					t.Fatalf("message %d behind the torn batch: %+v", i, o)
				}
			}
			var want []string
			for i := range 201 {
				want = append(want, strconv.Itoa(i+1))
			}
			if got := b.events(t); !slices.Equal(got, want) {
				t.Errorf("stored %d messages, %v", len(got), got)
			}
			last := w.take(t)
			if named := w.between(t, 0, last.Kept); len(named)+len(last.Delivered) != 201 {
				t.Errorf("the records name %d and %d messages, want 201", len(named), len(last.Delivered))
			}
		})
	}
}

// Whoever purges events leaves their records. A batch of which nothing is left is not torn, and not lost.
func TestAPurgeOfEventsTearsNoBatch(t *testing.T) {
	t.Parallel()
	events := jetstream.WithPurgeSubject("events.>")
	for name, remove := range map[string]func(context.Context, jetstream.Stream) error{
		"all": func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx, events) },
		"the first ones": func(ctx context.Context, s jetstream.Stream) error {
			return s.Purge(ctx, events, jetstream.WithPurgeSequence(5))
		},
		"the last one": func(ctx context.Context, s jetstream.Stream) error { return s.DeleteMsg(ctx, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			w := b.worker(t, 3, 7, natspub.FencedConfig{})
			w.take(t)
			w.publish(t, newMessage(1, "s", "x"), newMessage(2, "s", "x"), newMessage(3, "s", "x"))
			if err := remove(t.Context(), b.stream); err != nil {
				t.Fatal(err)
			}
			heir := b.worker(t, 3, 8, natspub.FencedConfig{})
			for range 2 {
				if s := heir.take(t); s.Kept != 5 || len(s.Delivered) != 3 {
					t.Errorf("the standing is %+v, want all three, kept up to 5", s)
				}
			}
		})
	}
}
