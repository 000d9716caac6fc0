package gaps_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// meddling is a stream with which something happens before or behind the n-th time that it is read.
type meddling struct {
	gaps.Stream
	n              int
	before, behind func(n int)
}

func (m *meddling) Scan(ctx context.Context, first, last uint64, fn func([]gaps.StoredMessage) error) error {
	m.n++
	m.before(m.n)
	err := m.Stream.Scan(ctx, first, last, fn)
	m.behind(m.n)
	return err
}

// passing is a stream whose reader passes over some events.
type passing struct{ gaps.Stream }

func (p passing) Scan(ctx context.Context, first, last uint64, fn func([]gaps.StoredMessage) error) error {
	return p.Stream.Scan(ctx, first, last, func(page []gaps.StoredMessage) error {
		page = slices.DeleteFunc(slices.Clone(page), func(m gaps.StoredMessage) bool { return m.Sequence >= 50 && m.Sequence <= 60 })
		return fn(page)
	})
}

func (b *bundle) purge(t *testing.T, o ...jetstream.StreamPurgeOpt) {
	t.Helper()
	if err := b.jetstream(t).Purge(t.Context(), o...); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) change(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	cfg := b.jetstream(t).CachedInfo().Config
	change(&cfg)
	if _, err := b.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// inTheStream is what is done to the stream on purpose, or is for takeovers to find.
func inTheStream() map[string]func(*testing.T, *bundle) {
	return map[string]func(*testing.T, *bundle){
		"events alone are purged": func(t *testing.T, b *bundle) {
			t.Helper()
			b.purge(t, jetstream.WithPurgeSubject("events.>"))
		},
		"purged from its front": func(t *testing.T, b *bundle) {
			t.Helper()
			b.purge(t, jetstream.WithPurgeSequence(100))
		},
		"purged without its records": func(t *testing.T, b *bundle) {
			t.Helper()
			b.purge(t, jetstream.WithPurgeSubject("events.>"), jetstream.WithPurgeSequence(100))
			b.purge(t, jetstream.WithPurgeSubject("outbox.fence.>"), jetstream.WithPurgeSequence(150))
		},
		"purged while it is read": func(t *testing.T, b *bundle) {
			t.Helper()
			none := func(int) {}
			b.stream = &meddling{b.stream, 0, none, func(n int) {
				if n == 1 {
					b.append(t, 50)
					b.drain(t)
					b.purge(t)
				}
			}}
		},
		"published and purged while it is read": func(t *testing.T, b *bundle) {
			t.Helper()
			more := func(n int) {
				if n == 1 {
					b.drain(t)
				}
			}
			b.append(t, 50)
			b.stream = &meddling{b.stream, 0, func(n int) {
				if n == 2 {
					b.purge(t, jetstream.WithPurgeSubject("events.>"))
				}
			}, more}
		},
		"max_age": func(t *testing.T, b *bundle) {
			t.Helper()
			b.change(t, func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 2*time.Second, time.Second })
			stream := b.jetstream(t)
			clustertest.Until(t, "messages expire", func(ctx context.Context) (bool, error) {
				info, err := stream.Info(ctx)
				return err == nil && info.State.FirstSeq > 50, err
			}, nil)
		},
		"max_msgs": func(t *testing.T, b *bundle) {
			t.Helper()
			b.change(t, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 120, jetstream.DiscardOld })
		},
		"one of a subject": func(t *testing.T, b *bundle) {
			t.Helper()
			b.change(t, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 })
		},
		"made anew": func(t *testing.T, b *bundle) {
			t.Helper()
			cfg := b.jetstream(t).CachedInfo().Config
			if err := b.js.DeleteStream(t.Context(), cfg.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := b.js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// inTheTables is what the tables tell of messages that are not in the stream.
func inTheTables() map[string]func(*testing.T, *bundle) {
	return map[string]func(*testing.T, *bundle){
		"events are erased": func(t *testing.T, b *bundle) {
			t.Helper()
			b.remove(t, 50, 60)
			b.exec(t, `DELETE FROM events WHERE sequence BETWEEN 50 AND 60`)
		},
		"the history is swept": func(t *testing.T, b *bundle) {
			t.Helper()
			b.remove(t, 50, 60)
			b.exec(t, `DELETE FROM outbox_deliveries`)
		},
		"replayed, waiting": func(t *testing.T, b *bundle) {
			t.Helper()
			b.remove(t, 50, 60)
			b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, generation, replay_id, parked)
				SELECT sequence, outbox_partition(stream_id, 4), stream_id, 100, 1, true FROM events WHERE sequence BETWEEN 50 AND 60`)
		},
		"replayed, dead": func(t *testing.T, b *bundle) {
			t.Helper()
			b.remove(t, 50, 60)
			b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, generation, parked, dead_at)
				SELECT sequence, outbox_partition(stream_id, 4), stream_id, 100, true, clock_timestamp() FROM events WHERE sequence BETWEEN 50 AND 60`)
		},
		"replayed, published": func(t *testing.T, b *bundle) {
			t.Helper()
			b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, generation, replay_id, parked)
				SELECT sequence, outbox_partition(stream_id, 4), stream_id, 100, 1, true FROM events WHERE sequence BETWEEN 50 AND 60 AND NOT audit_only`)
			b.remove(t, 50, 60)
			b.drain(t)
		},
		"passed over by the reader": func(t *testing.T, b *bundle) { // as under other subjects than are read
			t.Helper()
			b.stream = passing{b.stream}
		},
	}
}

// Nothing that was done on purpose, and nothing that takeovers look for, is a loss in the middle.
func TestAnAuditRaisesNoFalseAlarm(t *testing.T) {
	t.Parallel()
	all := inTheStream()
	maps.Copy(all, inTheTables())
	for name, do := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lost = delivery.LostReport
			b.append(t, 200)
			b.drain(t)
			do(t, b)
			waiting := b.exec(t, `UPDATE outbox SET attempts = 0`)
			c := b.auditor(t, true).wants(t, 0, 0, 0)
			t.Logf("%+v", c)
			if now := b.exec(t, `UPDATE outbox SET attempts = 0`); now > waiting {
				t.Errorf("%d wait, before it were %d", now, waiting)
			}
		})
	}
}
