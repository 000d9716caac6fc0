package caller_test

import (
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider/inbox"
)

// Two callers of one name send one queue: each call is carried out once, and its answer taken in once.
func TestTwoCallersShareAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requests := numbered(40)
	w.queue(t, requests...)
	both, sent := make(chan struct{}), atomic.Int32{}
	w.arrives = func(call inbox.Call) { // both have sent the first call before it is answered
		if call.ID == 1 {
			if sent.Add(1) == 2 {
				close(both)
			}
			<-both
		}
	}
	w.run(t)
	w.run(t)
	w.want(t, requests)
}
