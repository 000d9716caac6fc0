package ledger

import (
	"fmt"
	"time"
)

// Explain records an outside event (a kill, a takeover, an ambiguous acknowledgement) that may have caused the duplicates between two
// instants, both included. It may be called before or after they are received.
func (c *Checker) Explain(reason string, from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.duplicates.windows = append(c.duplicates.windows, window{reason, from, to})
}

type window struct {
	reason   string
	from, to time.Time
}

// duplicateList keeps the times of duplicates, to explain them at the end. Past timesMax it judges by the windows known at that moment.
type duplicateList struct {
	total       int
	windows     []window
	times       []time.Time
	explainedBy map[string]int // duplicates beyond timesMax, by reason
	first       []duplicateFault
}

type duplicateFault struct {
	Fault
	at time.Time
}

const timesMax = 1 << 20

func (c *Checker) duplicateLocked(m *Message, format string, args ...any) {
	f := c.faultOf(KindDuplicate, m, "%s", fmt.Sprintf(format, args...))
	c.justFound = append(c.justFound, f)
	d := &c.duplicates
	d.total++
	if len(d.times) < timesMax {
		d.times = append(d.times, m.ReceivedAt)
	} else if reason, ok := d.reason(m.ReceivedAt); ok {
		if d.explainedBy == nil {
			d.explainedBy = make(map[string]int)
		}
		d.explainedBy[reason]++
	}
	// Explanations may come later, so unexplained ones cannot be told apart yet: keep enough for both.
	if len(d.first) < max(c.config.FaultsKept, 1000) {
		d.first = append(d.first, duplicateFault{f, m.ReceivedAt})
	}
}

func (d *duplicateList) reason(at time.Time) (string, bool) {
	for _, w := range d.windows {
		if !at.Before(w.from) && !at.After(w.to) {
			return w.reason, true
		}
	}
	return "", false
}

func (d *duplicateList) explained() (total int, byReason map[string]int) {
	byReason = make(map[string]int)
	for reason, n := range d.explainedBy {
		byReason[reason] += n
		total += n
	}
	for _, at := range d.times {
		if reason, ok := d.reason(at); ok {
			byReason[reason]++
			total++
		}
	}
	return total, byReason
}
