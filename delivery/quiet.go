package delivery

import (
	"context"
	"time"
)

// longestQuiet bounds how long polls may leave the outbox alone.
const longestQuiet = time.Second

// rarestPoll is how many times a PollInterval polls are apart at most, while nothing
// is committed.
const rarestPoll = 4

// quiet tells which polls need not look at the outbox: while the log of the server
// stands where it stood before a look that found nothing, nothing was committed since (ADR 24).
//
// A transaction is visible a little after the record of its commit was written, so a
// look between the two finds nothing. Hence there must have been a second one, a
// PollInterval after the first. Where a commit takes longer than that, as with a slow
// standby that it waits for, and nobody rings, its events wait for longestQuiet at most.
type quiet struct {
	position string    // of the log before the last look; empty: it was no proof
	since    time.Time // the first look in a row that began there
	looked   time.Time // the last one
}

// note takes a look into account that asked for every partition and found nothing
// there, or one that proves nothing, with no position.
func (q *quiet) note(position string, began time.Time) {
	if position != q.position {
		q.position, q.since = position, began
	}
	q.looked = began
}

// nothingUpTo returns the position of the log up to which nothing can be claimed; empty:
// something can, or could without being written.
func (c *Claim) nothingUpTo() string {
	if len(c.Batches) > 0 || c.expecting || c.Watermark.Lag() > 0 {
		return ""
	}
	return c.began
}

// lasts tells whether a poll may be left out now, and if so when the next one is due:
// in silence they become rarer.
func (r *Relay) lasts(ctx context.Context, q quiet, waited time.Duration) (next time.Duration, yes bool) {
	if q.position == "" || q.looked.Sub(q.since) < r.cfg.PollInterval || time.Since(q.looked) >= longestQuiet {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	if position, err := r.store.Position(ctx); err != nil || position != q.position {
		return 0, false
	}
	return min(2*waited, rarestPoll*r.cfg.PollInterval), true
}

// watermarkPoll is how soon the watermark is looked at again while it waits for a
// transaction that is about to end.
const watermarkPoll = 5 * time.Millisecond

// patience is how long to wait for the next look: the usual interval, or less
// while the watermark is behind and moves.
type patience struct {
	least, most time.Duration
	wait        time.Duration
	seen        int64
	since       time.Time // when the watermark was behind and had moved last
}

func (p *patience) next(w *Watermark) time.Duration {
	if w == nil || w.Lag() == 0 {
		p.wait = 0
		return p.most
	}
	if p.wait == 0 || w.Safe != p.seen {
		p.wait, p.since = p.least, time.Now()
	} else {
		p.wait = min(2*p.wait, p.most)
	}
	p.seen = w.Safe
	return min(p.wait, p.most)
}

// moving tells whether the watermark is behind and may still move soon.
func (p *patience) moving() bool { return p.wait > 0 && time.Since(p.since) < time.Second }
