package ui

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/web"
)

// worthAWord is how long the order must have waited before people are told: a
// transaction of a producer may take a moment.
const worthAWord = time.Second

// Stalled tells whether open transactions keep events from being delivered: they
// have held the watermark back for more than a second, and as long some event
// has been pending in a partition that is not paused.
func (s Snapshot) Stalled() bool {
	for _, p := range s.Partitions {
		if s.waitsForOrder(p) {
			return true
		}
	}
	return false
}

// waitsForOrder leaves out events that have only just come: a watermark that
// nobody uses any more may be held, too, and then events do not wait.
func (s Snapshot) waitsForOrder(p Partition) bool {
	return s.Watermark.State() == WatermarkHeld && s.Watermark.Waiting > worthAWord &&
		p.PausedAt == nil && p.Pending > 0 && p.OldestPending > worthAWord
}

// Why lists what keeps events of the partition waiting, for people; empty when
// nothing waits or nothing is known to be in its way. An outage of the broker is
// known to the workers alone.
func (s Snapshot) Why(p Partition) []string {
	if p.Pending+p.Failed+p.Blocked+p.Dead == 0 {
		return nil
	}
	var why []string
	if p.PausedAt != nil {
		why = append(why, "paused since "+p.PausedAt.UTC().Format(time.DateTime)+" UTC")
	}
	switch {
	case p.Owned():
	case s.Frozen:
		why = append(why, "no owner: the partitions are being resized")
	default:
		why = append(why, "no owner")
	}
	if s.waitsForOrder(p) {
		why = append(why, "order waits for "+s.Watermark.HolderNames())
	}
	if p.Dead > 0 {
		why = append(why, fmt.Sprintf("%s dead, until a person acts", web.Count(p.Dead)))
	}
	if p.Failed > 0 {
		why = append(why, fmt.Sprintf("%s failed, to be tried again", web.Count(p.Failed)))
	}
	if p.Blocked > 0 {
		why = append(why, fmt.Sprintf("%s blocked behind an earlier event of their stream", web.Count(p.Blocked)))
	}
	return why
}
