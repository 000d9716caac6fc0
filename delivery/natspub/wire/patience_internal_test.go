package wire

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

func TestPatienceFollowsTheAnswers(t *testing.T) {
	t.Parallel()
	p := &patience{most: 5 * time.Second}
	want := func(when string, least, most time.Duration) {
		t.Helper()
		if got := p.now(); got < least || got > most {
			t.Errorf("%s an answer is awaited for %s, want %s to %s", when, got, least, most)
		}
	}
	want("at first", time.Second, time.Second)
	for range 8 { // beside each other
		p.unanswered(time.Second)
	}
	want("after one silence", 2*time.Second, 2*time.Second)
	p.unanswered(2 * time.Second)
	p.unanswered(4 * time.Second)
	want("after three", 5*time.Second, 5*time.Second)
	p.answered(2 * time.Millisecond)
	want("after a quick answer", time.Second, time.Second)
	for range 50 {
		p.answered(3 * time.Second)
	}
	want("of a slow broker", 3*time.Second, 5*time.Second)
	for range 200 {
		p.answered(time.Millisecond)
	}
	want("of a quick one", time.Second, time.Second)

	p = &patience{most: 200 * time.Millisecond}
	want("under a short time-out", 200*time.Millisecond, 200*time.Millisecond)
}

// A request that nobody answers is made again, long before the caller gives up.
func TestAnUnansweredReadIsMadeAgain(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(natstest.StartWith(t, localnats.Config{Nodes: 1}).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var asked atomic.Int64
	if _, err := nc.Subscribe("AWAY.STREAM.MSG.GET.EVENTS", func(m *nats.Msg) {
		if asked.Add(1) > 1 {
			if err := m.Respond([]byte(`{"message":{"seq":7}}`)); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	a := StreamAPI{nc, "AWAY", "EVENTS", &patience{most: 10 * time.Millisecond}}
	if m, err := a.Last(t.Context(), "s"); err != nil || m.Sequence != 7 {
		t.Errorf("read %d, %v; asked %d times", m.Sequence, err, asked.Load())
	}
}
