package natspub_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/lease/leasetest"
)

// The old owner publishes between the heir's read and the heir's write: the heir
// must notice, and learn of that batch, too.
func TestATakeoverKnowsWhatIsStoredBehindItsRead(t *testing.T) {
	t.Parallel()
	onEachTopology(t, func(t *testing.T, b bundle) {
		t.Helper()
		old := b.worker(t, 3, 7, natspub.FencedConfig{})
		old.take(t)
		old.publish(t, newMessage(1, "s", "x"))
		proxy, heir := b.behind(t, natspub.FencedConfig{})
		heir.lease = leasetest.Held(3, 8)
		var reads atomic.Int32
		between := newMessage(2, "s", "x")
		proxy.DropMessages(func(m faultproxy.Message) bool { // none is dropped, but all are seen
			if strings.HasPrefix(m.Subject, "_INBOX.") && bytes.Contains(m.Payload, []byte("stream_msg_get_response")) && reads.Add(1) == 1 {
				if o := old.publish(t, between); o[0].Kind != delivery.Published {
					t.Errorf("the old owner's message: %+v", o[0])
				}
			}
			return false
		})
		s := heir.take(t)
		want := []delivery.Delivered{{Sequence: 2, Identity: delivery.IdentityOf(between.Event.ID), StreamSequence: 5}}
		if s.Kept != 5 || s.Fence != 6 || !slices.Equal(s.Delivered, want) {
			t.Errorf("the standing is %+v, want %+v kept up to 5, fence 6", s, want)
		}
		if reads.Load() < 2 {
			t.Error("the heir did not read again")
		}
	})
}

// A batch that was under way during the takeover is refused when it arrives. The
// heir's next batch comes behind it: only then nothing can be stored any more.
func TestABatchThatArrivesAfterTheTakeoverIsRefused(t *testing.T) {
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
		heir.take(t)
		heir.publish(t, newMessage(1, "s", "fresh"))
		proxy.Release()
		// The old connection's own request comes behind its late bytes.
		if _, err := old.Take(t.Context(), old.lease, delivery.Known{}); !errors.Is(err, delivery.ErrFenced) {
			t.Errorf("the old owner's takeover: %v", err)
		}
		if o := heir.publish(t, newMessage(2, "s", "fresh")); o[0].Kind != delivery.Published {
			t.Errorf("the heir's next message: %+v", o[0])
		}
		if got := b.events(t); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("stored %v, want each once", got)
		}
	})
}
