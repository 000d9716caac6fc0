package inbox

import (
	"context"
	"testing"
	"testing/synctest"
)

// Queues are bounded by bytes, too: lanes with long messages do not fill the memory.
func TestReadingAheadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, b := newLane(0, 1, mark{}, 4), newLane(1, 1, mark{}, 4)
		a.ready, b.ready = true, true
		r := &reader{lanes: map[int]*lane{0: a, 1: b}, room: make(chan struct{}, 1)}
		admit := func(number int, sequence uint64, size int) <-chan bool {
			answer := make(chan bool, 1)
			go func() {
				l, more := r.admit(ctx, number, &item{at: mark{sequence: sequence}, size: size})
				answer <- l != nil && more
			}()
			synctest.Wait()
			return answer
		}
		if !<-admit(0, 1, 2*readAhead) {
			t.Error("one message must always fit")
		}
		second := admit(1, 2, 1)
		if len(second) != 0 {
			t.Error("it reads on although it holds too much")
		}
		r.mu.Lock()
		r.makeRoomLocked(a, 2*readAhead)
		r.mu.Unlock()
		if !<-second || r.read.sequence != 2 {
			t.Errorf("it does not go on when there is room, at %d", r.read.sequence)
		}
		if !<-admit(0, 3, readAhead-1) {
			t.Error("what fits does not go on")
		}
		third := admit(1, 4, 1)
		cancel()
		if <-third || r.read.sequence != 3 {
			t.Errorf("a pass that ends hands on, at %d", r.read.sequence)
		}
	})
}
