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
	// Both have sent the first call before it is answered, and the second one: by then both have taken the first answer in.
	both, sent := [2]chan struct{}{make(chan struct{}), make(chan struct{})}, [2]atomic.Int32{}
	w.arrives = func(call inbox.Call) {
		if n := call.ID - 1; n < 2 {
			if sent[n].Add(1) == 2 {
				close(both[n])
			}
			<-both[n]
		}
	}
	w.run(t)
	w.run(t)
	w.want(t, requests)
}
