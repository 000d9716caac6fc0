package natspub_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/lease/leasetest"
)

// single is a worker that has looked at the stream, as each does when it starts: little of a stream of one server is stored one by one.
func (b bundle) single(t *testing.T, epoch int64) (*faultproxy.NATS, *worker) {
	t.Helper()
	proxy, w := b.behind(t, natspub.FencedConfig{AckTimeout: 300 * time.Millisecond, Staging: time.Hour})
	w.lease = leasetest.Held(3, epoch)
	if _, err := w.Extent(t.Context()); err != nil {
		t.Fatal(err)
	}
	return proxy, w
}

// layout is what lies in the stream: kinds of records, and sequences of events.
func (b bundle) layout(t *testing.T) (list []string) {
	t.Helper()
	for _, m := range b.messages(t) {
		if _, kind, is := bytes.Cut(m.Data, []byte(`"kind":"`)); is && strings.HasPrefix(m.Subject, "outbox.fence.") {
			list = append(list, string(kind[:bytes.IndexByte(kind, '"')]))
			continue
		}
		list = append(list, m.Header.Get("Outbox-Sequence"))
	}
	return list
}

// Little is stored one by one: each message under the record that announced it, and the closing record last. A lot is stored as a batch.
func TestLittleIsStoredOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	_, w := b.single(t, 7)
	w.take(t)
	outcomes := w.publish(t, newMessage(1, "s", "x"), newMessage(2, "s", "y"))
	for i, o := range outcomes {
		if o.Kind != delivery.Published || o.StreamSequence != uint64(i+3) || o.FenceSequence != 5 {
			t.Errorf("message %d: %+v, want position %d and the record at 5", i, o, i+3)
		}
	}
	many := make([]delivery.Message, 17)
	for i := range many {
		many[i] = newMessage(int64(i+3), "s", "z")
	}
	if o := w.publish(t, many...); o[16].Kind != delivery.Published {
		t.Errorf("a lot: %+v", o[16])
	}
	if got, want := b.layout(t)[:6], []string{"fence", "announcement", "1", "2", "watermark", "batch"}; !slices.Equal(got, want) {
		t.Errorf("the stream begins with %v, want %v", got, want)
	}
	first, err := b.stream.GetMsg(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	subject := first.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader)
	if first.Header.Get(jetstream.ExpectedLastSubjSeqHeader) != "2" || subject != (streams.Control{}).Subject(3) {
		t.Errorf("it expects %v", first.Header)
	}
	for _, at := range []uint64{2, 6} { // who does not know announcements, or a batch by its beginning, must not read one
		if m, err := b.stream.GetMsg(t.Context(), at); err != nil || !strings.HasPrefix(string(m.Data), `{"v":3,`) {
			t.Errorf("the record at %d is %s: %v", at, m.Data, err)
		}
	}
	heir := b.worker(t, 3, 8, natspub.FencedConfig{})
	if s := heir.take(t); s.Kept != 23 || len(s.Delivered) != 17 {
		t.Errorf("the heir's standing: %+v", s)
	}
	if got := heir.between(t, 1, 23); len(got) != 2 || got[0].StreamSequence != 3 || got[1].StreamSequence != 4 {
		t.Errorf("the records between name %+v", got)
	}
}

// What was announced and stored, and not closed, is found by whoever takes the partition next, closed, and never stored again; so is it by one
// who takes it behind a takeover that ended amid that.
func TestWhatNobodyClosedIsFound(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]string{
		"the second message's answer is lost": `"seq":4}`, "the last message's answer is lost": `"seq":5}`, "the closing record's answer is lost": `"seq":6}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			proxy, w := b.single(t, 7)
			w.take(t)
			proxy.CutAtAck(func(m faultproxy.Message) bool { return faultproxy.PubAck(m) && bytes.Contains(m.Payload, []byte(cut)) })
			messages := []delivery.Message{newMessage(1, "s", "x"), newMessage(2, "s", "y"), newMessage(3, "s", "z")}
			if o := w.publish(t, messages...); o[0].Kind != delivery.Unresolved || !errors.Is(o[0].Err, delivery.ErrUnknown) {
				t.Errorf("without an answer: %+v", o[0])
			}
			stored := len(b.events(t))
			heir := b.worker(t, 3, 8, natspub.FencedConfig{})
			s := heir.take(t)
			if len(s.Delivered) != stored || stored < 2 {
				t.Errorf("%d are stored, and the heir found %+v", stored, s.Delivered)
			}
			for i, d := range s.Delivered {
				if d.Sequence != int64(i+1) || d.StreamSequence != uint64(i+3) || d.Identity != delivery.IdentityOf(messages[i].Event.ID) {
					t.Errorf("found %+v", d)
				}
			}
			if o := heir.publish(t, newMessage(4, "s", "later")); o[0].Kind != delivery.Published {
				t.Errorf("the heir's message: %+v", o[0])
			}
			next := b.worker(t, 3, 9, natspub.FencedConfig{})
			if got := next.between(t, 1, next.take(t).Fence); len(got) != stored+1 {
				t.Errorf("the records name %+v", got)
			}
		})
	}
}

// A single message that arrives behind a takeover is refused: its record is the last one no more.
func TestASingleThatArrivesBehindATakeoverIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	proxy, old := b.single(t, 7)
	old.take(t)
	announced, held := make(chan struct{}), make(chan struct{})
	proxy.DropMessages(func(m faultproxy.Message) bool {
		if faultproxy.PubAck(m) && bytes.Contains(m.Payload, []byte(`"seq":2}`)) { // of the announcement: what follows is held
			close(announced)
			<-held
		}
		return false
	})
	go func() {
		<-announced
		proxy.Hold(faultproxy.ClientToServer)
		close(held)
	}()
	if o := old.publish(t, newMessage(1, "s", "late")); o[0].Kind != delivery.Unresolved {
		t.Fatalf("published through a held link: %+v", o[0])
	}
	heir := b.worker(t, 3, 8, natspub.FencedConfig{})
	if s := heir.take(t); len(s.Delivered) != 0 {
		t.Errorf("found what never came: %+v", s.Delivered)
	}
	heir.publish(t, newMessage(1, "s", "fresh"))
	proxy.Release()
	if _, err := old.Take(t.Context(), old.lease, delivery.Known{}); !errors.Is(err, delivery.ErrFenced) {
		t.Errorf("the old owner's takeover: %v", err)
	}
	if got := b.layout(t); !slices.Equal(got, []string{"fence", "announcement", "fence", "watermark", "batch", "1"}) {
		t.Errorf("the stream holds %v", got)
	}
}
