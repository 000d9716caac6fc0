package delivery

import (
	"time"

	"github.com/postrider/postrider/lease"
)

// Observer is told of the relay's steps when they are over, so that others can
// make traces of them. It is called by many goroutines at once, between the
// events: it must neither block nor keep or change what it is given.
type Observer interface {
	// Claimed tells of a claim that found something or failed: how many partitions
	// were asked, and how many messages they had.
	Claimed(began time.Time, partitions, messages int, err error)
	// Published tells of what was handed to the publisher together, with one
	// outcome for each message.
	Published(began time.Time, b Batch, outcomes []Outcome)
	// Marked tells of one mark of several partitions.
	Marked(began time.Time, results []Result, err error)
	// Taken tells of a partition that was taken, before its first claim.
	Taken(began time.Time, l *lease.Lease, err error)
}

// clock is the time when somebody observes; nobody pays for it otherwise.
func (r *Relay) clock() time.Time {
	if r.cfg.Observer == nil {
		return time.Time{}
	}
	return time.Now()
}
