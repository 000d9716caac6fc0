package natspub_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// records are the positions of the control messages of a partition.
func (b bundle) records(t *testing.T, subject string) (positions []uint64) {
	t.Helper()
	info, err := b.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for at := uint64(1); at <= info.State.LastSeq; at++ {
		m, err := b.stream.GetMsg(t.Context(), at)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == subject {
			positions = append(positions, at)
		}
	}
	return positions
}

// begun has the stream begin with another message than a record.
func (b bundle) begun(t *testing.T) {
	t.Helper()
	if _, err := b.server.JetStream(t).Publish(t.Context(), "events.other.first", nil); err != nil {
		t.Fatal(err)
	}
}

// By the message that begins a stream a look for gaps tells that nothing was dropped: it stays where it is a record, too.
func TestTheRecordThatBeginsTheStreamStays(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	w.publish(t, newMessage(1, "s", "x"))
	last, written := w.Records(w.session)
	if _, err := w.Trim(t.Context(), 3, w.session, last, written); err != nil {
		t.Fatal(err)
	}
	if _, _, err := natspub.NewRecords(b.nc, "", streams.DefaultStream, streams.Control{}).Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := b.records(t, streams.Control{}.Subject(3)); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("records lie at %v, want the first one to stay", got)
	}
}

// A trim removes what lies before the record that is named, however many came behind it meanwhile, and nothing of
// other partitions or of events; who takes the partition then finds what it found before.
func TestATrimLeavesWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		b.begun(t)
		w, other := b.worker(t, 3, 7, natspub.FencedConfig{}), b.worker(t, 4, 7, natspub.FencedConfig{})
		w.take(t)
		other.take(t)
		other.publish(t, newMessage(100, "o", "x"))
		for n := range 3 {
			w.publish(t, newMessage(int64(n+1), "s", "x"))
		}
		last, written := w.Records(w.session)
		if written != 4 || last != 10 {
			t.Fatalf("a fence and three batches are %d records, the last at %d", written, last)
		}
		for n := range 2 {
			w.publish(t, newMessage(int64(n+4), "s", "x"))
		}
		if more, err := w.Trim(t.Context(), 3, w.session, last, written); err != nil || more {
			t.Fatalf("trimmed: more %t, %v", more, err)
		}
		if got := b.records(t, streams.Control{}.Subject(3)); !slices.Equal(got, []uint64{10, 12, 14}) {
			t.Errorf("records lie at %v, want the named one and both behind it", got)
		}
		if got := b.records(t, streams.Control{}.Subject(4)); len(got) != 2 {
			t.Errorf("records of the other partition lie at %v, want both", got)
		}
		heir := b.worker(t, 3, 8, natspub.FencedConfig{})
		if s := heir.take(t); s.Kept != 15 || len(s.Delivered) != 1 {
			t.Errorf("the heir finds %+v", s)
		}
		named := heir.between(t, last, 15)
		if len(named) != 1 || named[0].Sequence != 4 {
			t.Errorf("between what the database knows and the last record lies %+v, want sequence 4", named)
		}
		if o := heir.publish(t, newMessage(6, "s", "x")); o[0].Kind != delivery.Published {
			t.Errorf("the heir's message: %+v", o[0])
		}
	})
}

// A partition that rests keeps its last record alone; so does one over which owners came and went.
func TestATrimOfARestingPartitionLeavesOneRecord(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.begun(t)
	subject := streams.Control{}.Subject(3)
	var w *worker
	for epoch := range 5 {
		w = &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, int64(epoch+1))}
		w.take(t)
		if epoch == 1 {
			w.publish(t, newMessage(1, "s", "x"))
		}
	}
	last, written := w.Records(w.session)
	for range 2 { // there is nothing left the second time
		if more, err := w.Trim(t.Context(), 3, w.session, last, written); err != nil || more {
			t.Fatalf("trimmed: more %t, %v", more, err)
		}
		if got := b.records(t, subject); !slices.Equal(got, []uint64{last}) {
			t.Errorf("records lie at %v, want the last one alone, %d", got, last)
		}
	}
	heir := &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, 9)}
	if s := heir.take(t); s.Kept != 5 || len(s.Delivered) != 1 || s.Delivered[0].StreamSequence != 5 {
		t.Errorf("the heir finds %+v, want the message at 5 and its record at 4, which is gone", s)
	}
}

// One that was overtaken takes nothing that its heir wrote, and not the last record.
func TestATrimOfAFormerOwnerLeavesTheHeirs(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.begun(t)
	old := b.worker(t, 3, 7, natspub.FencedConfig{})
	old.take(t)
	old.publish(t, newMessage(1, "s", "x"))
	last, written := old.Records(old.session)
	heir := &worker{Fenced: b.fenced(t, b.nc, natspub.FencedConfig{}), lease: leasetest.Held(3, 8)}
	heir.take(t)
	heir.publish(t, newMessage(2, "s", "x"))
	for _, named := range []uint64{last, 1 << 20} { // another stream has other positions
		if _, err := old.Trim(t.Context(), 3, old.session, named, written); err != nil {
			t.Fatal(err)
		}
		want := []uint64{3, 5, 6}
		if named > last {
			want = want[2:]
		}
		if got := b.records(t, streams.Control{}.Subject(3)); !slices.Equal(got, want) {
			t.Errorf("behind a trim before %d records lie at %v, want %v", named, got, want)
		}
	}
}

// Whoever is not the owner keeps a number of each partition.
func TestRecordsAreTrimmedByNumber(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.begun(t)
	for id, batches := range map[partition.ID]int{3: 40, 4: 50} {
		w := b.worker(t, id, 7, natspub.FencedConfig{})
		w.take(t)
		for n := range batches {
			w.publish(t, newMessage(int64(n+1), "s", "x"))
		}
	}
	records := natspub.NewRecords(b.nc, "", streams.DefaultStream, streams.Control{})
	removed, left, err := records.Trim(t.Context(), 45)
	if err != nil || removed != 6 || left != 86 {
		t.Errorf("removed %d, %d left: %v; want 6 of 51 and none of 41", removed, left, err)
	}
	removed, left, err = records.Trim(t.Context(), 2)
	if err != nil || removed != 82 || left != 4 {
		t.Errorf("removed %d, %d left: %v; want all but 4", removed, left, err)
	}
	if held, err := records.Held(t.Context()); err != nil || len(held) != 2 {
		t.Errorf("held %v, %v", held, err)
	}
}

// A stream that does not let itself be purged says so, as a missing right does.
func TestADeniedTrimIsAMatterOfConfiguration(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, func(c *jetstream.StreamConfig) { c.DenyPurge = true })
	b.begun(t)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	w.publish(t, newMessage(1, "s", "x"))
	last, written := w.Records(w.session)
	if _, err := w.Trim(t.Context(), 3, w.session, last, written); !errors.Is(err, delivery.ErrConfiguration) {
		t.Errorf("a stream with deny_purge answers %v", err)
	}
	if err := natspub.NewRecords(b.nc, "", streams.DefaultStream, streams.Control{}).MayTrim(t.Context()); !errors.Is(err, delivery.ErrConfiguration) {
		t.Errorf("a stream with deny_purge may be trimmed: %v", err)
	}
}

// Records that lie far apart go step by step, and some stay: a purge that the server does late must not take what is not marked.
func TestATrimOverALongSpanGoesInSteps(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.begun(t)
	w := b.worker(t, 3, 7, natspub.FencedConfig{})
	w.take(t)
	for n := range 40 {
		w.publish(t, newMessage(int64(n+1), "s", "x"))
	}
	js, err := jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		t.Fatal(err)
	}
	for range 400_000 {
		if _, err := js.PublishAsync("events.other.done", nil, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	w.publish(t, newMessage(41, "s", "x"))
	records := natspub.NewRecords(b.nc, "", streams.DefaultStream, streams.Control{})
	held := func() uint64 {
		t.Helper()
		list, err := records.Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[streams.Control{}.Subject(3)]
	}
	last, written := w.Records(w.session)
	if more, err := w.Trim(t.Context(), 3, w.session, last, written); err != nil || !more || held() != 34 {
		t.Errorf("the first step left %d records, more %t: %v; want 8 of 42 removed", held(), more, err)
	}
	for more := true; more; {
		if more, err = w.Trim(t.Context(), 3, w.session, last, written); err != nil {
			t.Fatal(err)
		}
	}
	if n := held(); n != 16 {
		t.Errorf("a resting partition keeps %d records, want 16", n)
	}
	w.publish(t, newMessage(42, "s", "x"))
	if more, err := w.Trim(t.Context(), 3, w.session, last, written); err != nil || more || held() != 17 {
		t.Errorf("of a busy partition %d records are left, more %t: %v; want all 17", held(), more, err)
	}
}
