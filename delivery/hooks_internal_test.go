package delivery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A large payload is in memory as long as its transform runs, also past its time: no other one is begun before it has returned.
func TestLargePayloadsAreTransformedOneAtATime(t *testing.T) {
	t.Parallel()
	release, returned := make(chan struct{}), make(chan struct{}, 1)
	s := newShaping(Config{
		TransformTimeout: 10 * time.Millisecond,
		Transforms: []Transform{func(_ context.Context, d *Draft) error {
			if d.Stream == "slow" {
				<-release
			}
			return nil
		}},
	}.WithDefaults(), func() { returned <- struct{}{} })
	shape := func(stream string, size int) (Message, *Outcome) {
		h := s.start(t.Context(), func() bool { return false })
		defer h.end()
		m := Message{Pointer: Pointer{Stream: stream}, Event: &Event{Type: "t", Payload: make([]byte, size), Size: int64(size)}}
		sent, o, _ := h.shape(&m)
		return sent, o
	}
	if _, o := shape("slow", 2<<20); o == nil || !errors.Is(o.Err, errTransformTime) {
		t.Fatalf("the slow one: %+v", o)
	}
	if _, o := shape("other", 2<<20); o == nil || o.Kind != Unresolved || o.Err == nil || !strings.Contains(o.Err.Error(), "another large payload") {
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
