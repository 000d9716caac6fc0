package importer

import (
	"context"
	"time"
)

// pace spreads events evenly over time. It catches up on a slow database's delay up to the slack.
type pace struct {
	rate float64 // events a second; 0 is no limit
	next time.Time
}

const slack = 100 * time.Millisecond

// chunk bounds the events of a chunk, so that a slow import is not a sequence of bursts: about a tenth of a second's worth.
func (p *pace) chunk(most int) int {
	if p.rate == 0 {
		return most
	}
	return max(1, min(most, int(p.rate/10)))
}

// wait returns when so many further events are due, or when the context ends.
func (p *pace) wait(ctx context.Context, events int) error {
	if p.rate == 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	if earliest := now.Add(-slack); p.next.Before(earliest) {
		p.next = earliest
	}
	due := time.NewTimer(p.next.Sub(now))
	defer due.Stop()
	p.next = p.next.Add(time.Duration(float64(events) / p.rate * float64(time.Second)))
	select {
	case <-due.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
