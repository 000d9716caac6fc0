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
		p.PausedAt == nil && p.OldestPending > worthAWord
}

// cause is one kind of thing that keeps events waiting.
type cause int

// The causes, in the order in which a person should look at them.
const (
	causePaused cause = iota
	causeResizing
	causeNoOwner
	causeTransaction
	causeSilence
	causeDead
	causeFailed
	causeBlocked
	causes
)

// hindrance is a cause in one partition.
type hindrance struct {
	cause
	// events is how many it keeps waiting, as far as that is counted.
	events int64
	// text says it for people.
	text string
}

// silenceCounts is how old the oldest pending event is before silence is one.
const silenceCounts = 30 * time.Second

// silent tells whether nothing was delivered or tried for a minute or more.
func (s Snapshot) silent() bool {
	if len(s.Minutes) < 2 {
		return false
	}
	for _, m := range s.Minutes[len(s.Minutes)-2:] {
		if m.Published+m.Failed+m.Skipped > 0 {
			return false
		}
	}
	return true
}

// hindrances lists what keeps events of the partition waiting; none when nothing
// waits or nothing is known to be in its way.
func (s Snapshot) hindrances(p Partition) []hindrance {
	if p.OldestPending > 0 {
		p.Pending = max(p.Pending, 1) // it came after the last count
	}
	if p.Pending+p.Failed+p.Blocked+p.Dead == 0 {
		return nil
	}
	var list []hindrance
	add := func(c cause, events int64, format string, args ...any) {
		list = append(list, hindrance{c, events, fmt.Sprintf(format, args...)})
	}
	if p.PausedAt != nil {
		add(causePaused, p.Pending, "paused since %s UTC", p.PausedAt.UTC().Format(time.DateTime))
	}
	switch {
	case p.Owned():
	case s.Frozen:
		add(causeResizing, p.Pending, "no owner: the partitions are being resized")
	default:
		add(causeNoOwner, p.Pending, "no owner")
	}
	if s.waitsForOrder(p) {
		add(causeTransaction, p.Pending, "order waits for %s", s.Watermark.HolderNames())
	}
	if len(list) == 0 && p.OldestPending > silenceCounts && s.silent() {
		add(causeSilence, p.Pending, "its owner delivers nothing: the broker may be away")
	}
	if p.Dead > 0 {
		add(causeDead, p.Dead, "%s dead, until a person acts", web.Count(p.Dead))
	}
	if p.Failed > 0 {
		add(causeFailed, p.Failed, "%s failed, to be tried again", web.Count(p.Failed))
	}
	if p.Blocked > 0 {
		add(causeBlocked, p.Blocked, "%s blocked behind an earlier event of their stream", web.Count(p.Blocked))
	}
	return list
}

// Why lists what keeps events of the partition waiting, for people; empty when
// nothing waits or nothing is known to be in its way. An outage of the broker is
// known to the workers alone: here it shows as silence.
func (s Snapshot) Why(p Partition) []string {
	var why []string
	for _, one := range s.hindrances(p) {
		why = append(why, one.text)
	}
	return why
}

// obstacle is a cause over all partitions.
type obstacle struct {
	cause
	partitions []int
	events     int64
}

// obstacles lists the causes of what waits, over all partitions.
func (s Snapshot) obstacles() []obstacle {
	var all [causes]obstacle
	for _, p := range s.Partitions {
		for _, one := range s.hindrances(p) {
			o := &all[one.cause]
			o.cause = one.cause
			o.partitions = append(o.partitions, p.Number)
			o.events += one.events
		}
	}
	var list []obstacle
	for _, o := range all {
		if len(o.partitions) > 0 {
			list = append(list, o)
		}
	}
	return list
}
