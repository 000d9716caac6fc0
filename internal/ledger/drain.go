package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoLedger is returned by Wait when the checker has no ledger: it cannot know when it has everything.
var ErrNoLedger = errors.New("the checker has no ledger to be drained against")

// Drained is closed once the producers called Finish and every event they declared committed was received. Events of unknown outcome are
// not waited for. Without a ledger it is never closed.
func (c *Checker) Drained() <-chan struct{} { return c.drained }

// Oldest returns the commit time of the first event, in the order of declaration, that was not received yet; zero without any, or a ledger.
func (c *Checker) Oldest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.config.Ledger
	if l == nil {
		return time.Time{}
	}
	settled := true
	for i := c.settled; i < len(l.records) && c.outstanding > 0; i++ {
		waits := !c.exact.received(i)
		if waits && l.records[i].outcome == committed {
			return time.Unix(0, l.records[i].committedAt)
		}
		if settled = settled && (!waits || l.records[i].outcome == failed); settled {
			c.settled = i + 1
		}
	}
	return time.Time{}
}

// Overdue counts the events that were committed before that time and not received yet; 0 without a ledger.
func (c *Checker) Overdue(before time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.Ledger == nil {
		return 0
	}
	for i := c.settled; i < len(c.config.Ledger.records) && c.outstanding > 0; i++ {
		if record := &c.config.Ledger.records[i]; record.outcome == committed && record.committedAt < before.UnixNano() && !c.exact.received(i) {
			n++
		}
	}
	return n
}

// Wait returns nil when the checker is drained, an error that counts the missing events when the context ends first, and ErrNoLedger without
// a ledger.
func (c *Checker) Wait(ctx context.Context) error {
	if c.config.Ledger == nil {
		return ErrNoLedger
	}
	select {
	case <-c.drained:
		return nil
	default:
	}
	select {
	case <-c.drained:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.config.Ledger
	state := "the producers have not finished"
	if l.finished {
		state = "the producers have finished"
	}
	return fmt.Errorf("wait for %d of %d committed events (%s): %w",
		c.outstanding, l.committed, state, context.Cause(ctx))
}

func (c *Checker) signalDrainedLocked() {
	if c.drainedClosed || c.outstanding != 0 || c.config.Ledger == nil || !c.config.Ledger.finished {
		return
	}
	c.drainedClosed = true
	close(c.drained)
}
