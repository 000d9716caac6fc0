package natspub

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/delivery"
)

// While a batch is halved, the outcome of one half may stay unknown: what comes behind it must not be stored before it.
func TestARunThatFailedSendsNothingMore(t *testing.T) {
	t.Parallel()
	messages := []delivery.Message{{Pointer: delivery.Pointer{Stream: "a"}}, {Pointer: delivery.Pointer{Stream: "b"}}}
	run := &fencedRun{batch: delivery.Batch{Messages: messages}, outcomes: make([]delivery.Outcome, 2), held: map[string]int{}}
	if left := run.sendable([]int{0, 1}); len(left) != 2 {
		t.Fatalf("%v may be sent before", left)
	}
	run.fail(errors.New("no answer"))
	if left := run.sendable([]int{0, 1}); len(left) != 0 {
		t.Errorf("%v are sent behind an unknown outcome", left)
	}
}
