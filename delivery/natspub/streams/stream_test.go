package streams_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func defaultSubject(t *testing.T) wire.Subject {
	t.Helper()
	s, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheStreamIsCreatedOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	nc := connect(t, server)
	cfg := streams.StreamConfig{Subject: defaultSubject(t), Logger: logger(t)}
	if _, err := streams.EnsureStream(t.Context(), nc, cfg); !errors.Is(err, wire.ErrStreamMissing) || !strings.Contains(err.Error(), "--create-stream") {
		t.Fatalf("a missing stream: %v", err)
	}
	cfg.Create = true
	var all sync.WaitGroup
	for range 4 { // workers that start together
		all.Go(func() {
			info, err := streams.EnsureStream(t.Context(), nc, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			if c := info.Config; !c.AllowAtomicPublish || c.Discard != jetstream.DiscardNew ||
				strings.Join(c.Subjects, " ") != "events.> outbox.fence.>" {
				t.Errorf("created as %+v", c)
			}
		})
	}
	all.Wait()
}

// A cluster that has no place for a stream yet is asked again; one that refuses it for good is not.
func TestAStreamWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"a server is away": `{"code":400,"err_code":10005,"description":"no suitable peers for placement, peer offline"}`,
		"an election":      `{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := connect(t, natstest.Start(t, 1))
			const prefix = "imported.API"
			var asked atomic.Int32
			_, err := nc.Subscribe(prefix+".>", func(m *nats.Msg) { // the account's own, but for one answer
				api := strings.TrimPrefix(m.Subject, prefix)
				if strings.HasPrefix(api, ".STREAM.CREATE.") && asked.Add(1) == 1 {
					_ = m.Respond([]byte(`{"error":` + refusal + `}`))
				} else if answer, err := nc.Request("$JS.API"+api, m.Data, 5*time.Second); err == nil {
					_ = m.Respond(answer.Data)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			cfg := streams.StreamConfig{Subject: defaultSubject(t), Create: true, APIPrefix: prefix, Logger: logger(t)}
			if _, err := streams.EnsureStream(t.Context(), nc, cfg); err != nil || asked.Load() != 2 {
				t.Errorf("asked %d times for it: %v", asked.Load(), err)
			}
			cfg.Name = "SECOND" // its subjects are taken
			if _, err := streams.EnsureStream(t.Context(), nc, cfg); err == nil || asked.Load() != 3 {
				t.Errorf("asked %d times for one that is refused: %v", asked.Load()-2, err)
			}
		})
	}
}

// Who may not create a stream hears which one has its subjects.
func TestAnOverlapIsNamed(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	nc := connect(t, server)
	for subject, says := range map[string]string{
		"events.{topic}.{type}": "stream EVENTS has subjects of events.> already: use that one (--stream EVENTS), or give another --subject",
		"other.{topic}":         "stream EVENTS has subjects of outbox.fence.> already: use that one (--stream EVENTS), or give the outbox a prefix",
	} {
		s, err := wire.ParseSubject(subject)
		if err != nil {
			t.Fatal(err)
		}
		cfg := streams.StreamConfig{Subject: defaultSubject(t), Create: true, Logger: logger(t)}
		if _, err := streams.EnsureStream(t.Context(), nc, cfg); err != nil {
			t.Fatal(err)
		}
		cfg.Name, cfg.Subject = "SECOND", s
		if _, err := streams.EnsureStream(t.Context(), nc, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", subject, err, says)
		}
	}
}

// Outside programs know the default; a prefix of its own lets an outbox have a stream of its own in the same account.
func TestControlSubjectsLieUnderThePrefixOfTheOutbox(t *testing.T) {
	t.Parallel()
	outbox := uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef")
	for prefix, want := range map[string]string{"": "outbox.fence.0123456789ab.7 of outbox.fence.>", "a.b": "a.b.0123456789ab.7 of a.b.>"} {
		c := streams.Control{Outbox: outbox, Prefix: prefix}
		if got := c.Subject(7) + " of " + c.Subjects(); got != want {
			t.Errorf("%q: %s, want %s", prefix, got, want)
		}
	}
	nc := connect(t, natstest.Start(t, 1))
	for name, prefix := range map[string]string{"ONE": "", "TWO": "two.fence"} {
		subject, err := wire.ParseSubject(name + ".{topic}")
		if err != nil {
			t.Fatal(err)
		}
		c := streams.Control{Outbox: outbox, Prefix: prefix}
		info, err := streams.EnsureStream(t.Context(), nc, streams.StreamConfig{Name: name, Subject: subject, Control: c, Create: true, Logger: logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := (streams.Needs{Subject: subject, Control: &c}).Unmet(info.Config); err != nil {
			t.Error(err)
		}
		c.Prefix += "other"
		if err := (streams.Needs{Subject: subject, Control: &c}).Unmet(info.Config); !errors.Is(err, wire.ErrStreamUnfit) || !strings.Contains(err.Error(), c.Subjects()) {
			t.Errorf("a stream that does not capture %s: %v", c.Subjects(), err)
		}
	}
}

// Whoever reads the events' subjects must not get the workers' control messages.
func TestEventsAndControlMessagesLieApart(t *testing.T) {
	t.Parallel()
	nc := connect(t, natstest.Start(t, 1))
	for _, c := range []struct{ subject, prefix string }{
		{"evx.{topic}.{type}", "evx.fence"}, {"outbox.{topic}", ""}, {"outbox.fence.{topic}", ""}, {"a.b.c.{type}", "a.b"},
	} {
		subject, err := wire.ParseSubject(c.subject)
		if err != nil {
			t.Fatal(err)
		}
		_, err = streams.EnsureStream(t.Context(), nc, streams.StreamConfig{Subject: subject, Control: streams.Control{Prefix: c.prefix}, Create: true, Logger: logger(t)})
		if !errors.Is(err, wire.ErrConfig) || !strings.Contains(err.Error(), "--control-prefix") || !strings.Contains(err.Error(), c.subject) {
			t.Errorf("%s and %q: %v", c.subject, c.prefix, err)
		}
	}
}

func TestUnfitStreamsAreRefused(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	nc := connect(t, server)
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"SUBJECTS": {func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} }, "do not capture events.*.*"},
		"NARROW":   {func(c *jetstream.StreamConfig) { c.Subjects = []string{"narrow.one.*"} }, "do not capture"},
		"NOACK": {func(c *jetstream.StreamConfig) {
			c.Subjects = []string{"events.>"}
			c.NoAck = true
			c.AllowAtomicPublish = false
		}, "no_ack"},
		"MIRROR": {func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror = nil, &jetstream.StreamSource{Name: "NARROW"}
			c.AllowAtomicPublish = false
		}, "MIRROR is a mirror"},
	} {
		server.Stream(t, 1, func(s *jetstream.StreamConfig) { c.change(s); s.Name = name })
		_, err := streams.EnsureStream(t.Context(), nc, streams.StreamConfig{Name: name, Subject: defaultSubject(t), Logger: logger(t)})
		if !errors.Is(err, wire.ErrStreamUnfit) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
