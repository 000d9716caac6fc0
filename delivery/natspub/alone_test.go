package natspub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/partition"
)

// Where the stream takes no batches all messages go one by one, so many of them between two records.
func TestWithoutBatchesAllGoOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, inTurn)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	if !w.Capabilities().Steps {
		t.Error("it does not go step by step")
	}
	w.take(t)
	want, messages := []string{"fence"}, make([]delivery.Message, 130)
	for i := range messages {
		if i%64 == 0 {
			want = append(want, "watermark", "announcement")
		}
		messages[i] = newMessage(int64(i+1), "s", "x")
		want = append(want, fmt.Sprint(i+1))
	}
	want = append(slices.Delete(want, 1, 2), "watermark")
	for i, o := range w.publish(t, messages...) {
		if o.Kind != delivery.Published || o.FenceSequence <= o.StreamSequence {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	if got := b.layout(t); !slices.Equal(got, want) {
		t.Errorf("the stream holds %v, want %v", got, want)
	}
	if got := b.received(t, 1)[0].Header.Get(jetstream.ExpectedStreamHeader); got != "EVENTS" {
		t.Errorf("another stream on the subjects would store them, too: they are for %q", got)
	}
}

// A record that names many places is larger than one that names a batch: where messages are to be small, it names fewer.
func TestRecordsOfPlacesFitTheStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, inTurn, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2 << 10 })
	var workers []*worker
	for id := range partition.ID(8) {
		workers = append(workers, b.worker(t, id, 7, natspub.FencedConfig{}))
		workers[id].take(t)
	}
	const far = 1 << 60 // as long as a sequence may be
	send := func(w *worker, first int64) error {
		var messages []delivery.Message
		for i := range int64(26) { // as many as a call takes here
			m := newMessage(first+i<<50, "s", "x")
			m.Generation = 1 << 30
			messages = append(messages, m)
		}
		for i, o := range w.publish(t, messages...) {
			if o.Kind != delivery.Published {
				return fmt.Errorf("message %d of partition %d: %+v", i, w.lease.Partition, o)
			}
		}
		return nil
	}
	for i := range int64(4) {
		var sending errgroup.Group // so that places lie apart
		for _, w := range workers {
			sending.Go(func() error { return send(w, far+100*i) })
		}
		if err := sending.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if heir := b.worker(t, 3, 8, natspub.FencedConfig{}); len(heir.take(t).Delivered) == 0 {
		t.Error("who takes the partition finds nothing")
	}
}

// Batches may be turned off and on while workers run: they go on, and nothing is stored twice.
func TestBatchesAreTurnedOffAndOn(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	config := b.stream.CachedInfo().Config
	sequence := int64(0)
	for _, allowed := range []bool{false, true} {
		config.AllowAtomicPublish = allowed
		if _, err := b.server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		sequence++
		m := newMessage(sequence, "s", "x")
		if o := w.publish(t, m)[0]; !allowed && (o.Kind != delivery.Unresolved || !errors.Is(o.Err, delivery.ErrOutage) || errors.Is(o.Err, delivery.ErrUnknown)) {
			t.Errorf("the first batch that is refused: %+v, want it unresolved and not stored", o)
		}
		if _, err := w.Extent(t.Context()); err != nil || w.Capabilities().Steps == allowed {
			t.Errorf("batches allowed %v: it steps %v: %v", allowed, w.Capabilities().Steps, err)
		}
		if !allowed {
			if o := w.publish(t, m)[0]; o.Kind != delivery.Published {
				t.Errorf("without batches: %+v", o)
			}
		}
	}
	w.publish(t, newMessage(3, "s", "x"))
	if got, want := b.layout(t), []string{"fence", "announcement", "1", "watermark", "announcement", "2", "watermark", "batch", "3"}; !slices.Equal(got, want) {
		t.Errorf("the stream holds %v, want %v", got, want)
	}
}

// However long the headers are that a message gets on its way, it has a definite outcome at the server's limit.
func TestMessagesAtTheServersLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		staging time.Duration
		changes []func(*jetstream.StreamConfig)
	}{
		"little":    {staging: time.Hour},
		"in turn":   {changes: []func(*jetstream.StreamConfig){inTurn}},
		"a batch's": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1, c.changes...)
			w := b.worker(t, 3, 7, natspub.FencedConfig{Staging: c.staging})
			w.take(t)
			limit, seen := int(b.nc.MaxPayload()), map[delivery.Kind]int{}
			for size := limit - 600; size <= limit; size += 20 {
				o := w.publish(t, newMessage(int64(size), "s", strings.Repeat("x", size)))[0]
				if seen[o.Kind]++; o.Kind != delivery.Published && o.Kind != delivery.Permanent {
					t.Fatalf("a body of %d bytes, %d below the limit: %+v", size, limit-size, o)
				}
			}
			if len(seen) != 2 {
				t.Errorf("outcomes are %v, want both", seen)
			}
		})
	}
}
