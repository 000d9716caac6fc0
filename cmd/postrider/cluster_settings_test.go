package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// changeable is one that somebody changes while workers run.
type changeable struct {
	name   string
	change func(*testing.T, *hindered) (undo func())
	reason condition.Reason // "": delivery goes on all the while
}

// edited changes the stream as `nats stream edit` does.
func edited(change func(*jetstream.StreamConfig)) func(*testing.T, *hindered) func() {
	return func(t *testing.T, h *hindered) func() {
		t.Helper()
		before := h.stream(t).Config
		after := before
		after.Metadata = maps.Clone(before.Metadata)
		change(&after)
		h.edit(t, after)
		return func() { t.Helper(); h.edit(t, before) }
	}
}

func (h *hindered) stream(t *testing.T) *jetstream.StreamInfo {
	t.Helper()
	stream, err := h.NATS.JetStream(t).Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo()
}

func (h *hindered) edit(t *testing.T, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := h.NATS.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// reloaded changes the server as a reload of its configuration does.
func reloaded(change func(*server.Options)) func(*testing.T, *hindered) func() {
	return func(t *testing.T, h *hindered) func() {
		t.Helper()
		reload := func(change func(*server.Options)) {
			changed := h.options.Clone()
			changed.Users = users(nil)
			change(changed)
			if err := h.broker.ReloadOptions(changed); err != nil {
				t.Fatal(err)
			}
		}
		reload(change)
		return func() { reload(func(*server.Options) {}) }
	}
}

// limited changes what the account may use.
func limited(change func(*server.JetStreamAccountLimits)) func(*testing.T, *hindered) func() {
	return func(t *testing.T, h *hindered) func() {
		t.Helper()
		limit := func(change func(*server.JetStreamAccountLimits)) {
			limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}
			change(&limits)
			if err := h.broker.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
				t.Fatal(err)
			}
		}
		limit(change)
		return func() { limit(func(*server.JetStreamAccountLimits) {}) }
	}
}

// restarted begins the server anew with other settings.
func restarted(change func(*server.Options)) func(*testing.T, *hindered) func() {
	return func(t *testing.T, h *hindered) func() {
		t.Helper()
		before := h.options
		again := func(options *server.Options) {
			h.broker.Shutdown()
			h.broker.WaitForShutdown()
			h.options = options
			h.start(t)
		}
		changed := before.Clone()
		change(changed)
		again(changed)
		return func() { t.Helper(); again(before) }
	}
}

func changeables() []changeable {
	return []changeable{
		{"max_age", edited(func(s *jetstream.StreamConfig) { s.MaxAge = time.Hour }), condition.StreamUnfit},
		{"max_msgs", edited(func(s *jetstream.StreamConfig) { s.MaxMsgs = 1 }), condition.StreamFull},
		{"max_bytes", edited(func(s *jetstream.StreamConfig) { s.MaxBytes = 1 }), condition.StreamFull},
		{"discard old, max_msgs", edited(func(s *jetstream.StreamConfig) { s.Discard, s.MaxMsgs = jetstream.DiscardOld, 1e6 }), condition.StreamUnfit},
		{"discard old, max_bytes", edited(func(s *jetstream.StreamConfig) { s.Discard, s.MaxBytes = jetstream.DiscardOld, 1e9 }), condition.StreamUnfit},
		{"discard old without limits", edited(func(s *jetstream.StreamConfig) { s.Discard = jetstream.DiscardOld }), ""},
		{"max_msgs_per_subject", edited(func(s *jetstream.StreamConfig) { s.MaxMsgsPerSubject = 1e6 }), condition.StreamUnfit},
		{"max_msg_size", edited(func(s *jetstream.StreamConfig) { s.MaxMsgSize = 2 << 10 }), ""},
		{"max_msg_size below a record", edited(func(s *jetstream.StreamConfig) { s.MaxMsgSize = 10 }), condition.StreamUnfit},
		{"without the events' subjects", edited(func(s *jetstream.StreamConfig) { s.Subjects = []string{"outbox.fence.>"} }), condition.StreamUnfit},
		{"without the records' subjects", edited(func(s *jetstream.StreamConfig) { s.Subjects = []string{"events.>"} }), condition.StreamUnfit},
		{"no_ack", edited(func(s *jetstream.StreamConfig) { s.NoAck = true }), condition.StreamUnfit},
		{"no batches", edited(func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = false }), ""},
		{"a short duplicate window", edited(func(s *jetstream.StreamConfig) { s.Duplicates = 100 * time.Millisecond }), ""},
		{"max_payload", reloaded(func(o *server.Options) { o.MaxPayload = 2 << 10 }), ""},
		{"the account's storage", limited(func(l *server.JetStreamAccountLimits) { l.MaxStore = 1 }), condition.BrokerFull},
		{"the account's streams", limited(func(l *server.JetStreamAccountLimits) { l.MaxStreams = 1 }), ""},
		{"message TTLs", func(t *testing.T, h *hindered) func() { // which stay
			t.Helper()
			edited(func(s *jetstream.StreamConfig) { s.AllowMsgTTL = true })(t, h)
			return edited(func(s *jetstream.StreamConfig) { s.MaxAge = time.Hour })(t, h)
		}, ""},
		{"the server's storage", restarted(func(o *server.Options) { o.JetStreamMaxStore = 1 }), condition.BrokerFull},
	}
}

// Whatever somebody changes at the stream, the account or the server while workers deliver is named if it keeps them from it, they go
// on once it is undone, and every event is in the stream once.
func TestSettingsChangeWhileWorkersDeliver(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	h := newHindered(t)
	second := clustertest.Launch(t, "worker 2", nil, append([]string{"run", "--http-addr=off"}, h.on...)...)
	clustertest.Until(t, "both workers are members", func(ctx context.Context) (both bool, err error) {
		err = h.Pool.QueryRow(ctx, `SELECT count(*) = 2 FROM outbox_workers WHERE state = 'active'`).Scan(&both)
		return both, err
	}, nil)
	subscriber := h.Subscribe(t, nil)
	load := h.Produce(t, clustertest.Load{Writers: 2, Streams: 40, Every: 50 * time.Millisecond})
	for _, s := range changeables() { //nolint:paralleltest // they are of one server
		t.Run(s.name, func(t *testing.T) {
			subscriber.WaitReceived(t, 20)
			undone, back := false, s.change(t, h)
			undo := func() {
				if !undone {
					undone = true
					back()
				}
			}
			defer undo()
			if s.reason == "" {
				h.Backlog(t, 2000)
				h.wantSoon(t, "what waits is published", h.publishedUntil(t))
			} else {
				h.wantSoon(t, "all name "+string(s.reason), func(context.Context) (bool, string, error) {
					missing := h.silent(t, s.reason) //nolint:contextcheck // of the test
					return len(missing) == 0, strings.Join(missing, "\n"), nil
				})
				h.Backlog(t, 100)
			}
			undo()
			h.wantSoon(t, "what waited is published", h.publishedUntil(t))
			h.wantSoon(t, "nothing is named any more", func(ctx context.Context) (bool, string, error) {
				status, body, err := h.get(ctx, "/readyz")
				return status == http.StatusOK, body, err
			})
		})
	}
	load.WaitCommitted(t, 1)
	h.Verify(t)
	wantAlive(t, h.worker.Process, second)
	sealed := h.stream(t).Config
	sealed.Sealed = true
	h.edit(t, sealed)
	h.wantSoon(t, "all name a sealed stream", func(context.Context) (bool, string, error) {
		missing := h.silent(t, condition.StreamUnfit) //nolint:contextcheck // of the test
		return len(missing) == 0, strings.Join(missing, "\n"), nil
	})
}

// wantAlive fails the test for each worker that ended.
func wantAlive(t *testing.T, workers ...*clustertest.Process) {
	t.Helper()
	for _, p := range workers {
		select {
		case <-p.Ended():
			t.Errorf("a worker ended: %s", p.Stderr())
		default:
		}
	}
}

// publishedUntil returns a test that holds once all is published that is committed now.
func (h *hindered) publishedUntil(t *testing.T) func(context.Context) (bool, string, error) {
	t.Helper()
	var last int64
	if err := h.Pool.QueryRow(t.Context(), `SELECT coalesce(max(sequence), 0) FROM events`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (bool, string, error) {
		var waiting int
		err := h.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox WHERE global_sequence <= $1`, last).Scan(&waiting)
		return waiting == 0, fmt.Sprintf("%d wait", waiting), err
	}
}

// wantSoon waits for what is promised within namedWithin.
func (h *hindered) wantSoon(t *testing.T, what string, holds func(context.Context) (bool, string, error)) {
	t.Helper()
	var state string
	took := clustertest.Until(t, what, func(ctx context.Context) (ok bool, err error) {
		ok, state, err = holds(ctx)
		return ok, err
	}, func() string { return state })
	t.Logf("%s after %s", what, took.Round(10*time.Millisecond))
	if took > 4*namedWithin { // a busy machine has longer
		t.Errorf("%s after %s, want %s", what, took, namedWithin)
	}
}
