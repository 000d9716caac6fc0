package natspub

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

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

// Another stream on the subject, as at a leaf node, may refuse a message before its own stream has stored it.
func TestAnotherStreamsAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	a, answered := &answers{prefix: "inbox.", waiting: map[uint64]receiver{}}, make(answerChannel, 2)
	reply := a.expect(answered)
	for _, said := range []string{`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"HERE","seq":0}`, `{"stream":"EVENTS","seq":7}`} {
		a.receive(&nats.Msg{Subject: reply, Data: []byte(said)})
	}
	if ans := <-answered; ans.err != nil || ans.sequence != 7 {
		t.Errorf("the answer is %+v, want that of its own stream", ans)
	}
}
