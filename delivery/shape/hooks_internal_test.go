package shape

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
)

// A large payload is in memory as long as its transform runs, also past its time: no other one is begun before it has returned.
func TestLargePayloadsAreTransformedOneAtATime(t *testing.T) {
	t.Parallel()
	release, returned := make(chan struct{}), make(chan struct{}, 1)
	s := New(Config{
		Timeout: 10 * time.Millisecond, MaxPayload: 8 << 20, Grow: 16 << 20, Logger: slog.New(slog.DiscardHandler),
		Transforms: []Transform{func(_ context.Context, d *Draft) error {
			if d.Stream == "slow" {
				<-release
			}
			return nil
		}},
	}, func() { returned <- struct{}{} })
	shape := func(stream string, size int) (delivery.Message, *delivery.Outcome) {
		h := s.Start(t.Context(), s.own, func() bool { return false })
		defer h.End()
		m := delivery.Message{Pointer: delivery.Pointer{Stream: stream}, Event: &delivery.Event{Type: "t", Payload: make([]byte, size), Size: int64(size)}}
		sent, o, _ := h.Shape(&m)
		return sent, o
	}
	if _, o := shape("slow", 2<<20); o == nil || !errors.Is(o.Err, ErrTransformTime) {
		t.Fatalf("the slow one: %+v", o)
	}
	if _, o := shape("other", 2<<20); o == nil || o.Kind != delivery.Unresolved || o.Err == nil || !strings.Contains(o.Err.Error(), "another large payload") {
		t.Errorf("another large one: %+v", o)
	}
	if _, o := shape("other", 1000); o != nil {
		t.Errorf("a small one: %+v", o)
	}
	close(release)
	<-returned
	if sent, o := shape("other", 2<<20); o != nil || len(sent.Event.Payload) != 2<<20 {
		t.Errorf("afterwards: %+v", o)
	}
}
