package natspub_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/lease/leasetest"
)

// proxied is a connection through a proxy.
func (b bundle) proxied(t *testing.T) (*faultproxy.NATS, *nats.Conn) {
	t.Helper()
	node, _, _ := strings.Cut(b.server.URL(), ",")
	proxy := faultproxy.StartNATS(t, node)
	nc, err := wire.Connect(proxy.URL(), t.Name(), logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return proxy, nc
}

// behind returns a publisher whose connection runs through a proxy.
func (b bundle) behind(t *testing.T, cfg natspub.FencedConfig) (*faultproxy.NATS, *worker) {
	t.Helper()
	proxy, nc := b.proxied(t)
	return proxy, &worker{Fenced: b.fenced(t, nc, cfg), lease: leasetest.Held(3, 7)}
}

func isFence(m faultproxy.Message) bool { return strings.HasPrefix(m.Subject, "outbox.fence.") }

// An acknowledgement that is lost is asked for again under the same expectation:
// the batch is stored once, and its position is known.
func TestALostAcknowledgementStoresNothingTwice(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		epoch := int64(0)
		for name, lose := range map[string]func(p *faultproxy.NATS){
			"answer dropped": func(p *faultproxy.NATS) {
				drop := p.DropMessages(faultproxy.PubAck)
				go func() { // until the resent batch is answered
					trigger := p.CutAfterPub(isFence)
					<-trigger.Fired()
					drop.Stop()
				}()
			},
			"cut at the answer":     func(p *faultproxy.NATS) { p.CutAtAck(faultproxy.PubAck) },
			"cut behind the record": func(p *faultproxy.NATS) { p.CutAfterPub(isFence) },
		} {
			epoch++
			proxy, w := b.behind(t, natspub.FencedConfig{AckTimeout: 300 * time.Millisecond})
			w.lease = leasetest.Held(3, epoch)
			w.take(t)
			before := len(b.events(t))
			lose(proxy)
			first := int64(1000 + before)
			outcomes := w.publish(t, newMessage(first, "s", name), newMessage(first+1, "s", name))
			for outcomes[0].Kind != delivery.Published { // the publisher gives up while it is disconnected
				if !errors.Is(outcomes[0].Err, delivery.ErrUnknown) {
					t.Fatalf("%s: %+v", name, outcomes[0])
				}
				standing, err := w.Take(t.Context(), w.lease, delivery.Known{})
				if err != nil {
					if !errors.Is(err, delivery.ErrOutage) {
						t.Fatal(err)
					}
					continue
				}
				if slices.ContainsFunc(standing.Delivered, func(d delivery.Delivered) bool { return d.Sequence == first }) {
					break // stored already, as the takeover says
				}
				outcomes = w.publish(t, newMessage(first, "s", name), newMessage(first+1, "s", name))
			}
			if got := len(b.events(t)) - before; got != 2 {
				t.Errorf("%s: %d messages are stored, want 2", name, got)
			}
		}
	})
}

// An answer that is lost is asked for soon, not when the time-out ends.
func TestALostAnswerIsAskedForSoon(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	proxy, nc := b.proxied(t)
	lose := func() {
		var answers atomic.Int64
		proxy.DropMessages(func(m faultproxy.Message) bool { return faultproxy.PubAck(m) && answers.Add(1) == 1 })
	}
	w := &worker{Fenced: b.fenced(t, nc, natspub.FencedConfig{AckTimeout: time.Hour}), lease: leasetest.Held(3, 7)}
	w.take(t)
	lose()
	if o := w.publish(t, newMessage(1, "s", "1")); o[0].Kind != delivery.Published {
		t.Errorf("a batch whose answer was lost ended as %+v", o[0])
	}
	if got := len(b.events(t)); got != 1 {
		t.Errorf("%d messages are stored, want 1", got)
	}
}

// Bytes of a stopped owner that arrive after the takeover are refused.
func TestLateBytesAreRefusedAfterATakeover(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		proxy, old := b.behind(t, natspub.FencedConfig{AckTimeout: 200 * time.Millisecond})
		old.take(t)
		proxy.Hold(faultproxy.ClientToServer)
		if o := old.publish(t, newMessage(1, "s", "late")); o[0].Kind != delivery.Unresolved {
			t.Fatalf("published through a held link: %+v", o[0])
		}
		heir := &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, 8)}
		if s := heir.take(t); len(s.Delivered) != 0 {
			t.Fatalf("the standing is %+v", s)
		}
		heir.publish(t, newMessage(1, "s", "fresh"))
		proxy.Release()
		// The old connection's own request comes behind its late bytes.
		if _, err := old.Take(t.Context(), old.lease, delivery.Known{}); !errors.Is(err, delivery.ErrFenced) {
			t.Fatalf("the old owner's takeover: %v", err)
		}
		if got := b.events(t); !slices.Equal(got, []string{"1"}) {
			t.Errorf("stored %v, want 1 once", got)
		}
	})
}

// A message that the stream refuses for what it is, is found in its batch by
// halving; its stream waits and the others pass, by policy.
func TestARefusedBatchIsHalved(t *testing.T) {
	t.Parallel()
	for _, policy := range []delivery.FailurePolicy{delivery.BehindStream, delivery.BehindRetries, delivery.BehindNone} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			w := b.worker(t, 0, 1, natspub.FencedConfig{})
			w.take(t)
			b.edit(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
			var messages []delivery.Message
			for i := range 100 {
				messages = append(messages, newMessage(int64(i+1), "s", "x"))
			}
			messages[40].Stream, messages[40].Event.Payload = "bad", make([]byte, 3000)
			messages[60].Stream = "bad"
			outcomes := publish(t, w, delivery.Batch{
				Lease: w.lease, Messages: messages, Policy: policy,
			})
			for i, o := range outcomes {
				expected := delivery.Published
				switch {
				case i == 40:
					expected = delivery.Permanent
				case i == 60 && policy != delivery.BehindNone:
					expected = delivery.Behind
				}
				if o.Kind != expected {
					t.Errorf("message %d: %+v, want kind %d", i, o, expected)
				}
			}
			// The records list everything that this run stored, in all its batches: the last one, and those before it.
			published := 0
			for _, o := range outcomes {
				if o.Kind == delivery.Published {
					published++
				}
			}
			last := w.take(t)
			if between := w.between(t, 0, last.Kept); len(between)+len(last.Delivered) != published {
				t.Errorf("the records list %d and %d messages, %d were published", len(between), len(last.Delivered), published)
			}
		})
	}
}

// edit changes the stream as an operator does.
func (b bundle) edit(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	config := b.stream.CachedInfo().Config
	change(&config)
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// No message is accused where the stream stops capturing it: the partition waits.
func TestALostSubjectIsNobodysFault(t *testing.T) {
	t.Parallel()
	for name, topic := range map[string]string{"of all messages": "shop", "of the first one": "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			w := b.worker(t, 0, 1, natspub.FencedConfig{})
			w.take(t)
			b.edit(t, func(c *jetstream.StreamConfig) { c.Subjects = []string{"events.elsewhere.>", "outbox.fence.>"} })
			messages := []delivery.Message{newMessage(1, "s", "x"), newMessage(2, "t", "x")}
			messages[1].Topic = topic
			for i, o := range publish(t, w, delivery.Batch{Lease: w.lease, Messages: messages}) {
				if o.Kind != delivery.Unresolved || !errors.Is(o.Err, wire.ErrStreamUnfit) {
					t.Errorf("message %d: %+v", i, o)
				}
			}
		})
	}
}

// Nor is one accused that is too large for a stream which takes no records any more, either.
func TestAMessageTooLargeForAnUnfitStreamIsNotAccused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 0, 1, natspub.FencedConfig{})
	w.take(t)
	b.edit(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 900 })
	large := newMessage(1, "s", strings.Repeat("x", 2000))
	if o := publish(t, w, delivery.Batch{Lease: w.lease, Messages: []delivery.Message{large}}); o[0].Kind != delivery.Unresolved || !errors.Is(o[0].Err, wire.ErrStreamUnfit) {
		t.Errorf("message 0: %+v", o[0])
	}
}

// started is a server with those users.
func started(t *testing.T, options *server.Options, users ...*server.User) *server.Server {
	t.Helper()
	options.Users = users
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// Nobody is accused where the stream cannot be looked at: the answer may be the stream's fault.
func TestAnUnseenStreamIsNobodysFault(t *testing.T) {
	t.Parallel()
	options := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	blind := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}}}
	s := started(t, options, &server.User{Username: "relay", Password: "relay", Permissions: blind}, &server.User{Username: "admin", Password: "admin"})
	b := bundle{nc: login(t, s, "admin")}
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	if b.stream, err = js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	all := b.stream.CachedInfo().Config.Subjects
	w := &worker{Fenced: b.fenced(t, login(t, s, "relay"), natspub.FencedConfig{AckTimeout: time.Second}), lease: leasetest.Held(3, 1)}
	w.take(t)
	first, second := newMessage(1, "s", "x"), newMessage(2, "s", "x")
	first.Topic = "gone"
	b.edit(t, func(c *jetstream.StreamConfig) { c.Subjects = []string{"events.shop.>", "outbox.fence.>"} })
	for i, o := range w.publish(t, first, second) {
		if o.Kind != delivery.Unresolved || !errors.Is(o.Err, delivery.ErrOutage) || !errors.Is(o.Err, nats.ErrPermissionViolation) {
			t.Errorf("message %d: %+v", i, o)
		}
	}
	b.edit(t, func(c *jetstream.StreamConfig) { c.Subjects = all })
	w.take(t)
	w.publish(t, first, second)
	if got := b.events(t); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("stored %v, want 1 and 2 in that order", got)
	}
}

// login is a connection of a user whose password is the name.
func login(t *testing.T, s *server.Server, user string) *nats.Conn {
	t.Helper()
	nc, err := wire.Connect("nats://"+user+":"+user+"@"+s.Addr().String(), user, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// When permission is taken away nothing is accused: the partition waits.
func TestARefusedPermissionIsNobodysFault(t *testing.T) {
	t.Parallel()
	options := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	s := started(t, options, &server.User{Username: "relay", Password: "relay"}, &server.User{Username: "admin", Password: "admin"})
	js, err := jetstream.New(login(t, s, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), natstest.StreamConfig(1)); err != nil {
		t.Fatal(err)
	}
	w := &worker{Fenced: bundle{}.fenced(t, login(t, s, "relay"), natspub.FencedConfig{AckTimeout: time.Second}), lease: leasetest.Held(0, 1)}
	if _, err := w.Extent(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.take(t)
	reload := func(permissions *server.Permissions) {
		changed := options.Clone()
		changed.Users = []*server.User{{Username: "relay", Password: "relay", Permissions: permissions}, options.Users[1]}
		if err := s.ReloadOptions(changed); err != nil {
			t.Fatal(err)
		}
	}
	reload(&server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"events.>"}}})
	for i, o := range w.publish(t, newMessage(1, "a", "x"), newMessage(2, "b", "x")) {
		if o.Kind != delivery.Unresolved || !errors.Is(o.Err, delivery.ErrOutage) || !errors.Is(o.Err, nats.ErrPermissionViolation) {
			t.Errorf("message %d: %+v", i, o)
		}
	}
	reload(nil)
	outcome := delivery.Outcome{}
	for ctx := t.Context(); outcome.Kind != delivery.Published && ctx.Err() == nil; {
		if _, err := w.Take(ctx, w.lease, delivery.Known{}); err == nil {
			outcome = w.publish(t, newMessage(1, "a", "x"))[0]
		}
	}
}

// A record that vanished is noticed: the publisher asks to take the partition anew.
func TestAVanishedRecordIsNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 0, 1, natspub.FencedConfig{})
	w.take(t)
	w.publish(t, newMessage(1, "s", "x"))
	if err := b.stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := w.publish(t, newMessage(2, "s", "x"))
	if o[0].Kind != delivery.Unresolved || !errors.Is(o[0].Err, delivery.ErrUnknown) {
		t.Fatalf("outcome %+v", o[0])
	}
	if s := w.take(t); s.Kept != 0 || len(s.Delivered) != 0 {
		t.Errorf("the standing is %+v", s)
	}
	if o := w.publish(t, newMessage(2, "s", "x")); o[0].Kind != delivery.Published {
		t.Errorf("outcome %+v", o[0])
	}
	extent, err := w.Extent(t.Context())
	if err != nil || extent.First <= 3 || extent.Last != extent.First+2 || extent.Created.IsZero() {
		t.Errorf("the stream reaches %+v: %v", extent, err)
	}
}
