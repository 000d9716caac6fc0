package natspub

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/delivery"
)

// An answer that comes when its message was given up changes nothing, and sends nothing more.
func TestALateAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	const reply = "inbox.1"
	s := &Shadow{answers: &answers{prefix: "inbox.", waiting: map[uint64]waiter{}}}
	p := &pipeline{
		Shadow: s, messages: make([]delivery.Message, 2), next: []int{1, 0},
		outcomes: make([]delivery.Outcome, 2), replies: map[int]string{0: reply}, done: make(chan struct{}),
	}
	cause := errors.New("silence")
	p.abandon(cause)
	select {
	case <-p.done:
	default:
		t.Fatal("nothing is in flight, and it has not ended")
	}
	p.receive(answer{index: 0, sequence: 7, stream: "EVENTS"})
	p.abandon(errors.New("once more"))
	for i, o := range p.outcomes {
		if o.Kind != delivery.Unresolved || (o.Err != nil) != (i == 0) {
			t.Errorf("message %d: %+v, want it unresolved, and the first for a reason", i, o)
		}
	}
	if !errors.Is(p.outcomes[0].Err, delivery.ErrUnknown) || !errors.Is(p.outcomes[0].Err, cause) {
		t.Errorf("unresolved for %v, want %v", p.outcomes[0].Err, cause)
	}
}
