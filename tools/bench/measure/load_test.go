package measure

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
)

// What a subscriber did not get is its own failure where the stream holds everything, and the relay's where it does not.
func TestWhatWasNotHeardIsExplained(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	b, err := start(t.Context(), tiny(t, "steady"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	n, err := b.broker(t.Context(), brokerShape{replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	js, err := jetstream.New(n.nc)
	if err != nil {
		t.Fatal(err)
	}
	book := ledger.New()
	from := uint64(0)
	for i := range 10 {
		if i == 5 { // before it another phase ended
			if from, err = n.next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		e := PeerEvent{Sequence: int64(i + 1), ID: uuid.New(), Stream: "s" + strconv.Itoa(i), Version: 1, Type: "changed", Payload: "{}"}
		msg, err := e.Message()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		if from > 0 {
			book.Committed([]ledger.Entry{{
				EventID: e.ID, Stream: e.Stream, Version: e.Version, Sequence: e.Sequence, BodyHash: ledger.HashBody([]byte(e.Payload)),
			}}, time.Now())
		}
	}
	book.Finish()
	l := &load{n: n, order: ledger.ByPartition}
	if err := l.explain(t.Context(), book, from); !errors.Is(err, errUnheard) {
		t.Errorf("everything is stored: %v", err)
	}
	if err := n.stream.DeleteMsg(t.Context(), from+2); err != nil {
		t.Fatal(err)
	}
	if err := l.explain(t.Context(), book, from); !errors.Is(err, ErrUnproved) || errors.Is(err, errUnheard) {
		t.Errorf("one is not stored: %v", err)
	}
}
