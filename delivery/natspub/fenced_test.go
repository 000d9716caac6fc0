package natspub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// worker is one process's publisher with its lease on a partition.
type worker struct {
	*natspub.Fenced
	lease   *lease.Lease
	session delivery.Session
}

// Take keeps the session.
func (w *worker) Take(ctx context.Context, l *lease.Lease, known delivery.Known) (delivery.Standing, error) {
	s, err := w.Fenced.Take(ctx, l, known)
	w.session = s.Session
	return s, err
}

// Publish publishes under it.
func (w *worker) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i := range look {
		look[i].Session = w.session
	}
	w.Fenced.Publish(look, done)
}

func (b bundle) worker(t *testing.T, id partition.ID, epoch int64, cfg natspub.FencedConfig) *worker {
	t.Helper()
	return &worker{Fenced: b.fenced(t, b.nc, cfg), lease: leasetest.Held(id, epoch)}
}

func (b bundle) fenced(t *testing.T, nc *nats.Conn, cfg natspub.FencedConfig) *natspub.Fenced {
	t.Helper()
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = 2 * time.Second
	}
	if b.stream != nil {
		cfg.Found = b.stream.CachedInfo()
	}
	cfg.Staging = cmp.Or(cfg.Staging, time.Nanosecond) // whatever is little goes as a batch, too
	p, err := natspub.NewFenced(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (w *worker) take(t *testing.T) delivery.Standing {
	t.Helper()
	s, err := w.Take(t.Context(), w.lease, delivery.Known{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// between reads all records between two positions.
func (w *worker) between(t *testing.T, after, before uint64) (all []delivery.Delivered) {
	t.Helper()
	for {
		last, named, err := w.Between(t.Context(), w.lease.Partition, after, before)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, named...); last == after {
			return all
		}
		after = last
	}
}

func (w *worker) publish(t *testing.T, messages ...delivery.Message) []delivery.Outcome {
	t.Helper()
	for i := range messages {
		messages[i].Partition = w.lease.Partition
	}
	return publish(t, w, delivery.Batch{Lease: w.lease, Messages: messages})
}

// events are the stored messages without the control messages.
func (b bundle) events(t *testing.T) (sequences []string) {
	t.Helper()
	for _, m := range b.messages(t) {
		if !strings.HasPrefix(m.Subject, "outbox.fence.") {
			sequences = append(sequences, m.Header.Get(message.HeaderSequence))
		}
	}
	return sequences
}

func onEachTopology(t *testing.T, test func(t *testing.T, b bundle)) {
	t.Helper()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("R%d", nodes), func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, nodes))
		})
	}
}

func TestABatchIsStoredWithItsRecord(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		w := b.worker(t, 3, 7, natspub.FencedConfig{})
		if s := w.take(t); s.Kept != 0 || s.Fence != 1 || len(s.Delivered) != 0 {
			t.Fatalf("an empty stream gives the standing %+v", s)
		}
		for round := range 3 {
			first := int64(10*round + 1)
			outcomes := w.publish(t, newMessage(first, "a", "1"), newMessage(first+1, "b", "2"), newMessage(first+4, "a", "3"))
			for i, o := range outcomes {
				at := uint64(3 + 4*round + i)
				if o.Kind != delivery.Published || o.StreamSequence != at || o.FenceSequence != uint64(5+4*round) {
					t.Fatalf("round %d, message %d: %+v, want position %d", round, i, o, at)
				}
			}
		}
		if got, want := b.events(t), []string{"1", "2", "5", "11", "12", "15", "21", "22", "25"}; !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		stored := b.messages(t)[2]
		if stored.Header.Get("Nats-Msg-Id") != "" || stored.Header.Get("Outbox-Epoch") != "" || stored.Header.Get("Outbox-Event-Id") == "" {
			t.Errorf("headers %v", stored.Header)
		}
	})
}

// Records between two positions are read to the end, however many; fences name nothing, and others' partitions do not count.
func TestRecordsBetweenTwoPositions(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		w := b.worker(t, 3, 7, natspub.FencedConfig{})
		other := b.worker(t, 4, 7, natspub.FencedConfig{})
		w.take(t)
		other.take(t)
		var want []delivery.Delivered
		var records []uint64
		for n := range 120 {
			m := newMessage(int64(n+1), "a", "x")
			o := w.publish(t, m)[0]
			want = append(want, delivery.Delivered{Sequence: m.Sequence, Identity: delivery.IdentityOf(m.Event.ID), StreamSequence: o.StreamSequence})
			records = append(records, o.FenceSequence)
			if n%40 == 0 {
				w.take(t)
				other.publish(t, newMessage(int64(n+1000), "b", "x"))
			}
		}
		if got := w.between(t, 0, records[119]); !slices.Equal(got, want[:119]) {
			t.Errorf("before the last one are %v", got)
		}
		if got := w.between(t, records[9], records[70]); !slices.Equal(got, want[10:70]) {
			t.Errorf("between the 10th and the 71st are %v", got)
		}
		if got := w.between(t, records[118], records[119]); len(got) != 0 {
			t.Errorf("between neighbours are %v", got)
		}
	})
}

// A new owner learns what the last batch was; the old one is refused from then on.
func TestATakeoverFencesTheOldOwner(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		old := b.worker(t, 3, 7, natspub.FencedConfig{})
		old.take(t)
		again := newMessage(4, "b", "x")
		again.Generation = 2
		first := newMessage(2, "a", "x")
		old.publish(t, newMessage(1, "a", "before"))
		old.publish(t, first, again)

		heir := &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, 8)}
		s := heir.take(t)
		want := []delivery.Delivered{
			{Sequence: 2, Identity: delivery.IdentityOf(first.Event.ID), StreamSequence: 5},
			{Sequence: 4, Identity: delivery.IdentityOf(again.Event.ID), Generation: 2, StreamSequence: 6},
		}
		if s.Kept != 6 || s.Fence != 7 || !slices.Equal(s.Delivered, want) {
			t.Fatalf("the standing is %+v, want %+v kept up to 6, fence 7", s, want)
		}
		if s := heir.take(t); s.Kept != 6 || !slices.Equal(s.Delivered, want) {
			t.Fatalf("taken again, the standing is %+v", s)
		}
		for _, o := range old.publish(t, newMessage(9, "a", "stale")) {
			if o.Kind != delivery.Unresolved || !errors.Is(o.Err, delivery.ErrFenced) {
				t.Errorf("the old owner's message: %+v", o)
			}
		}
		if _, err := old.Take(t.Context(), old.lease, delivery.Known{}); !errors.Is(err, delivery.ErrFenced) {
			t.Errorf("the old owner takes the partition back: %v", err)
		}
		heir.publish(t, newMessage(9, "a", "fresh"))
		if got, want := b.events(t), []string{"1", "2", "4", "9"}; !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
	})
}

// Several partitions share batches; one that was taken over is refused alone.
func TestAStalePartitionHarmsNoOther(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		p := b.fenced(t, b.nc, natspub.FencedConfig{})
		const partitions = 12
		workers := make([]*worker, partitions)
		for i := range workers {
			workers[i] = &worker{Fenced: p, lease: leasetest.Held(partition.ID(i), 1)}
			workers[i].take(t)
		}
		(&worker{Fenced: b.fenced(t, connect(t, b.server), natspub.FencedConfig{}), lease: leasetest.Held(5, 2)}).take(t)
		var publishing sync.WaitGroup
		results := make([][]delivery.Outcome, partitions)
		for i, w := range workers {
			publishing.Go(func() {
				for n := range 20 {
					o := w.publish(t, newMessage(int64(100*i+n), "s", "x"))
					results[i] = append(results[i], o...)
					if o[0].Kind != delivery.Published {
						return
					}
				}
			})
		}
		publishing.Wait()
		for i, outcomes := range results {
			last := outcomes[len(outcomes)-1]
			if i == 5 && (!errors.Is(last.Err, delivery.ErrFenced) || len(outcomes) != 1) {
				t.Errorf("the stale partition ends with %+v after %d", last, len(outcomes))
			}
			if i != 5 && (len(outcomes) != 20 || last.Kind != delivery.Published) {
				t.Errorf("partition %d ends with %+v after %d", i, last, len(outcomes))
			}
		}
		stored := b.messages(t)
		for i, outcomes := range results { // every position is the message's own
			for n, o := range outcomes {
				if o.Kind != delivery.Published {
					continue
				}
				if got := stored[o.StreamSequence-1].Header.Get(message.HeaderSequence); got != fmt.Sprint(100*i+n) {
					t.Fatalf("partition %d: position %d holds %s, want %d", i, o.StreamSequence, got, 100*i+n)
				}
			}
		}
	})
}

func TestMessagesThatCannotBeStoredFailAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 0, 1, natspub.FencedConfig{MaxMessageSize: 2000})
	w.take(t)
	outcomes := w.publish(t, newMessage(1, "a", "1"), newMessage(2, "b", strings.Repeat("x", 2000)), newMessage(3, "b", "3"), newMessage(4, "c", "4"))
	want := []delivery.Kind{delivery.Published, delivery.Permanent, delivery.Behind, delivery.Published}
	if got := kinds(outcomes); !slices.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
	if !errors.Is(outcomes[1].Err, delivery.ErrPayloadTooLarge) {
		t.Errorf("it failed with %v", outcomes[1].Err)
	}
}

// Two outboxes on one stream have partitions of the same number and do not fence
// each other.
func TestOutboxesOnOneStreamAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	one := b.worker(t, 0, 9, natspub.FencedConfig{Control: streams.Control{Outbox: uuid.New()}})
	two := b.worker(t, 0, 2, natspub.FencedConfig{Control: streams.Control{Outbox: uuid.New()}})
	one.take(t)
	two.take(t)
	for _, w := range []*worker{one, two} {
		if o := w.publish(t, newMessage(1, "s", "x")); o[0].Kind != delivery.Published {
			t.Errorf("outcome %+v", o[0])
		}
	}
}

// Another stream on the subjects, as at a leaf node, takes no batches and says so first. What counts is the own stream's answer.
func TestAnotherStreamsRefusalOfBatchesIsNotOurs(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		w := b.worker(t, 3, 7, natspub.FencedConfig{})
		w.take(t)
		other := connect(t, b.server)
		if _, err := other.Subscribe("events.>", func(m *nats.Msg) {
			if m.Reply != "" {
				_ = m.Respond([]byte(`{"error":{"code":400,"err_code":10174,"description":"atomic publish is disabled"},"stream":"HERE","seq":0}`))
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
		for round := range int64(5) {
			for _, o := range w.publish(t, newMessage(2*round+1, "a", "x"), newMessage(2*round+2, "a", "y")) {
				if o.Kind != delivery.Published {
					t.Fatalf("round %d: %+v", round, o)
				}
			}
		}
	})
}
