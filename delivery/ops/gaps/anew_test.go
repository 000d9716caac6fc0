package gaps_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/ops/gaps"
)

// lacks counts what the stream is said to lack, and wants nothing else to be wrong.
func (b *bundle) lacks(t *testing.T, when string, want int) {
	t.Helper()
	r, err := b.store.Detect(t.Context(), gaps.Options{}, b.stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(r.Counts[gaps.NotInStream]); got != want || int(r.Total()) != got {
		t.Errorf("%s: %d events are not in the stream, want %d; gaps %v, %d messages, %d deliveries, %v",
			when, got, want, r.Counts, r.Messages, r.Delivered, r.Notes)
	}
}

// position is where the event lies behind so many others.
func (b *bundle) position(t *testing.T, others int) (at uint64) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), `SELECT stream_sequence FROM outbox_messages WHERE state = 'published'
		ORDER BY stream_sequence OFFSET $1 LIMIT 1`, others).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// remake makes the stream anew.
func (b *bundle) remake(t *testing.T) {
	t.Helper()
	if err := b.js.DeleteStream(t.Context(), streams.DefaultStream); err != nil {
		t.Fatal(err)
	}
	b.server.Stream(t, 1)
}

// A stream that was made anew holds nothing of what the history says, whatever lies at
// its positions, or beyond them.
func TestAStreamMadeAnewIsNoProof(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lost = delivery.LostReport
	b.append(t, 200) // 190 to be published
	b.drain(t)
	b.lacks(t, "at first", 0)
	b.remake(t)
	b.lacks(t, "anew", 190)
	b.exec(t, `SELECT outbox_append('later', 't', '1')`)
	b.drain(t)
	b.lacks(t, "anew, with one event", 190)
	b.exec(t, `DELETE FROM outbox_deliveries WHERE id IN (SELECT id FROM outbox_deliveries ORDER BY id LIMIT 1)`)
	r, err := b.store.Detect(t.Context(), gaps.Options{Kinds: []gaps.GapKind{gaps.NeverEnqueued}}, b.stream)
	if err != nil || r.Total() != 0 {
		t.Errorf("what the history forgot is judged by a younger stream: %d, %v", r.Total(), err)
	}
	b.append(t, 100)
	b.lost = delivery.LostRepublish
	b.drain(t)
	done, err := b.store.Repair(t.Context(), gaps.Repair{
		Options: gaps.Options{Kinds: []gaps.GapKind{gaps.NotInStream}}, Actor: "test", Reason: "because",
	}, b.stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d were queued", len(done.Queued))
	b.drain(t)
	b.lacks(t, "repaired", 0)
}

// Between the look and the repair the workers put back what a stream that was made anew lacks: at lower positions.
func TestWhatWorkersHealedMeanwhileIsNotRepaired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lost = delivery.LostReport
	b.append(t, 200) // 190 to be published
	b.drain(t)
	b.remake(t)
	b.lost = delivery.LostRepublish
	done, err := b.store.Repair(t.Context(), gaps.Repair{
		Options: gaps.Options{Kinds: []gaps.GapKind{gaps.NotInStream}}, Actor: "test", Reason: "because",
		Confirm: func([]gaps.Gap) error {
			_, err := b.keeper.AcquireSolo(t.Context()) // an heir
			b.drain(t)
			return err
		},
	}, b.stream)
	if err != nil || len(done.Queued) != 0 || done.Gone != 190 {
		t.Errorf("%d were queued, and %d were there again; want none and 190: %v", len(done.Queued), done.Gone, err)
	}
	b.lacks(t, "healed", 0)
}

// What a stream dropped by order is explained; what somebody purged is not, unless it
// is the events alone.
func TestWhatAStreamDropsByOrderIsExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  func(*jetstream.StreamConfig)
		records bool // they stay, and all events go
		want    int
	}{
		"purged":                    {func(*jetstream.StreamConfig) {}, false, 95},
		"events alone":              {func(*jetstream.StreamConfig) {}, true, 0},
		"of a stream with max_age":  {func(c *jetstream.StreamConfig) { c.MaxAge, c.AllowMsgTTL = time.Hour, true }, false, 0},
		"of a stream with max_msgs": {func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 100 }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lost = delivery.LostReport
			b.append(t, 200)
			b.drain(t)
			stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
			if err != nil {
				t.Fatal(err)
			}
			purge := jetstream.WithPurgeSequence(b.position(t, 95))
			if c.records {
				purge = jetstream.WithPurgeSubject("events.>")
			}
			if err := stream.Purge(t.Context(), purge); err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			c.config(&config)
			if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			b.lacks(t, name, c.want)
			if c.records { // the stream of an older copy has a record where the first event lay
				b.exec(t, `UPDATE outbox_deliveries SET first_stream_sequence = 1, stream_sequences = 1 || stream_sequences[2:]
				            WHERE id = (SELECT min(id) FROM outbox_deliveries)`)
				b.lacks(t, "restored", 1)
			}
			r, err := b.store.Detect(t.Context(), gaps.Options{}, b.stream)
			if err != nil || c.want == 0 && !strings.Contains(fmt.Sprint(r.Notes), "dropped from the front") {
				t.Errorf("notes %q, %v", r.Notes, err)
			}
		})
	}
}
