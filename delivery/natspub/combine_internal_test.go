package natspub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/lease/leasetest"
)

// While one batch is in the air, shares gather; one more takes off only when it is full.
func TestASecondFlightIsFull(t *testing.T) {
	t.Parallel()
	f := &Fenced{cfg: FencedConfig{Flights: 1, AckTimeout: time.Hour}, slots: newSlots(func() int { return 1 })}
	c := &combiner{f: f}
	f.slots.enter(t.Context()) // nothing is sent before the slot is left
	l := leasetest.Held(0, 1)
	l.Lost() // and nothing then
	var shares []*share
	add := func(messages, bytes int) {
		s := &share{
			run: &fencedRun{batch: delivery.Batch{Lease: l}}, indices: make([]int, messages), bytes: bytes, answered: make(chan shared, 1),
		}
		shares = append(shares, s)
		c.add(s)
	}
	want := func(flying, waiting int) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.flying != flying || len(c.queue) != waiting {
			t.Errorf("%d batches are in the air and %d shares wait, want %d and %d", c.flying, len(c.queue), flying, waiting)
		}
	}
	add(10, 100)
	want(1, 0)
	add(10, 100)
	add(700, 100)
	want(1, 2)
	add(287, 100) // 997 messages and three records
	want(2, 0)
	add(999, 100)
	want(2, 1) // but no third
	f.slots.leave(wire.Answer{})
	for _, s := range shares {
		if ans := <-s.answered; ans.Err == nil {
			t.Error("a share without a lease was sent")
		}
	}

	c = &combiner{f: f, flying: 1}
	c.queue = []*share{{indices: make([]int, 1), bytes: MaxBatchBytes}}
	if !c.fullLocked() {
		t.Error("a batch of as many bytes as one may have is not full")
	}
}

// The shares of one look fly together, and who asks is told when the next ones would fly at once.
func TestSharesOfOneLookFlyTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &Fenced{cfg: FencedConfig{Flights: 1, AckTimeout: time.Hour}, slots: newSlots(func() int { return 1 })}
		c := &combiner{f: f}
		f.slots.enter(t.Context()) // nothing is sent before the slot is left
		l := leasetest.Held(0, 1)
		l.Lost() // and nothing then
		share := func() *share {
			return &share{run: &fencedRun{batch: delivery.Batch{Lease: l}}, indices: make([]int, 10), answered: make(chan shared, 1)}
		}
		want := func(flying, waiting int, ready bool) {
			t.Helper()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.flying != flying || len(c.queue) != waiting || c.freeLocked() != ready {
				t.Errorf("%d batches are in the air, %d shares wait, free: %t; want %d, %d, %t",
					c.flying, len(c.queue), c.freeLocked(), flying, waiting, ready)
			}
		}
		isClosed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		want(0, 0, true)
		c.add(share(), share(), share())
		want(1, 0, false)
		late := share()
		c.add(late)
		want(1, 1, false)
		landed := c.ready()
		if isClosed(landed) {
			t.Error("ready while a batch is in the air")
		}
		f.slots.leave(wire.Answer{})
		<-late.answered
		synctest.Wait()
		want(0, 0, true)
		if !isClosed(landed) || !isClosed(c.ready()) {
			t.Error("nobody was told that the batch has landed")
		}
	})
}
