package gaps_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/pgstore"
)

// What was published, and removed from the stream on purpose, is not queued again once the history has forgotten it: the stream's first
// message may be a record, which says nothing of the events behind it.
func TestWhatWasRemovedOnPurposeIsNoGapBehindTheHistory(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*testing.T, *bundle, jetstream.Stream) error{
		"events alone are purged": func(t *testing.T, _ *bundle, s jetstream.Stream) error {
			t.Helper()
			return s.Purge(t.Context(), jetstream.WithPurgeSubject("events.>"))
		},
		"one is deleted": func(t *testing.T, b *bundle, s jetstream.Stream) error {
			t.Helper()
			return s.DeleteMsg(t.Context(), b.position(t, 50))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lost = delivery.LostReport
			b.append(t, 200)
			b.drain(t)
			stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
			if err == nil {
				err = remove(t, b, stream)
			}
			if err != nil {
				t.Fatal(err)
			}
			store, err := pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{})
			if err != nil {
				t.Fatal(err)
			}
			sweeper, err := pgstore.NewSweeper(store, b.pool, pgstore.RetentionConfig{History: time.Microsecond})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := sweeper.Sweep(t.Context()); err != nil || n == 0 {
				t.Fatal(n, err)
			}
			done, err := b.store.Repair(t.Context(), gaps.Repair{Actor: "test", Reason: "because"}, b.stream)
			if err != nil || len(done.Queued) != 0 {
				t.Errorf("%d events that were published are queued a second time, %v", len(done.Queued), err)
			}
		})
	}
}
