package loop

import (
	"time"

	"github.com/postrider/postrider/delivery"
)

// schedule decides when the outbox is looked at, and whether all of it. It is pure: the
// relay's loop tells it what happens and when, and does what next says.
//
// There is a reason to look when a doorbell rings, something became claimable, or a poll
// is due. What comes until the look begins shares it.
type schedule struct {
	interval time.Duration // PollInterval
	batch    int           // BatchSize
	once     bool          // each look asks for everything

	wanted time.Time // since when there is a reason to look; zero: there is none
	owed   bool      // a poll is the reason, or one of them
	ready  time.Time // since when the publisher is, of those with a reason
	due    time.Time // the next poll
	apart  time.Duration
	every  time.Time // the last look that asked for every partition
	last   look
	little bool
	lag    backoff
	still  idleLog
	quick  time.Duration // how soon a poll comes after one that found what nobody rang for; 0: in its time
}

func newSchedule(cfg Config, once bool) *schedule {
	return &schedule{
		interval: cfg.PollInterval, batch: cfg.BatchSize, once: once, little: true,
		lag: backoff{least: watermarkPoll, most: cfg.PollInterval},
	}
}

// look is one look at the outbox with its result.
type look struct {
	began, ended time.Time
	every        bool // every partition that is held was to be asked for
	asked, found int
	little       bool
	// position of the log up to which nothing waits anywhere; empty: something may.
	position string
}

// full reports whether more may wait than was found.
func (l look) full(batch int) bool {
	return l.asked == 0 || l.found >= batch || l.little && l.found >= littleLook
}

type observation struct {
	every      bool      // something concerns every partition
	requested  bool      // rings named some
	unanswered bool      // something is between claim and answer
	gathers    bool      // the publisher sends together what it is given, and
	ready      bool      // would send at once
	pause      time.Time // nothing is done before
}

type action uint8

const (
	actWait          action = iota // wait for what happens
	actProbe                       // ask whether the log of the server stands where it stood
	actLookRequested               // at what was named
	actLookAll                     // look at everything
)

// quickPoll lies between a poll that found something and the next: whoever appended
// it does not ring. With each poll that finds nothing the wait doubles, up to a PollInterval.
const quickPoll = 2500 * time.Microsecond

// longestBreather bounds what pacing adds to the latency for the database's sake.
const longestRest = 5 * time.Millisecond

// want notes a reason to look.
func (s *schedule) want(now time.Time) {
	if s.wanted.IsZero() {
		s.wanted = now
	}
}

// owe notes that a poll is to look.
func (s *schedule) owe(now time.Time) {
	s.owed = true
	s.want(now)
}

// next decides the next action; actWait: for so long.
//
// A look that found little is followed by a rest as long as it took: what comes
// meanwhile shares the next one, and a database that is slow is asked less often. With
// a publisher that gathers, what it found is answered before, if that is soon: until
// it can send again, partitions could not be claimed, or only to wait.
func (s *schedule) next(now time.Time, o observation) (action, time.Duration) {
	if !s.owed && !s.once && !o.every && !o.requested { // a ring was for others, or a look came before it was heard
		s.wanted = time.Time{}
	}
	if s.wanted.IsZero() {
		if wait := s.due.Sub(now); wait > 0 {
			return actWait, wait
		}
		if s.still.lasts(now, s.interval) {
			return actProbe, 0
		}
		s.owe(now)
	}
	until := o.pause
	if !s.last.full(s.batch) {
		until = later(until, s.last.ended.Add(min(s.last.ended.Sub(s.last.began), longestRest)))
		if o.gathers {
			until = later(until, s.gathered(now, o))
		}
	}
	if wait := until.Sub(now); wait > 0 {
		return actWait, wait
	}
	if s.once || o.every || !o.requested || now.Sub(s.every) >= s.interval {
		return actLookAll, 0
	}
	return actLookRequested, 0
}

// gathered is the time up to which the publisher and its answers are waited for.
func (s *schedule) gathered(now time.Time, o observation) time.Time {
	switch {
	case !o.ready:
		return s.wanted.Add(s.interval)
	case s.ready.IsZero():
		s.ready = now
	}
	if o.unanswered {
		return later(s.wanted.Add(2*longestRest), s.ready.Add(longestRest))
	}
	return time.Time{}
}

// looked takes a look into account, and where the watermark stood.
func (s *schedule) looked(l look, w *delivery.Watermark) {
	switch {
	case !s.owed:
	case l.found > 0:
		s.quick = min(quickPoll, s.interval)
	default:
		if s.quick *= 2; s.quick >= s.interval {
			s.quick = 0
		}
	}
	s.last, s.wanted, s.owed, s.ready = l, time.Time{}, false, time.Time{}
	if l.every {
		s.every = l.began
	}
	if l.asked > 0 {
		s.little = l.found < littleLook
	}
	s.still.note(l.position, l.began)
	s.apart = s.lag.next(l.ended, w)
	if s.quick > 0 {
		s.apart = min(s.apart, s.quick)
	}
	s.due = l.ended.Add(s.apart)
}

// probed takes the answer to a probe into account: in silence polls become rarer.
func (s *schedule) probed(now time.Time, position string) {
	if position == "" || position != s.still.position {
		s.owe(now)
		return
	}
	s.apart = min(2*s.apart, rarestPoll*s.interval)
	s.due = now.Add(s.apart)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// longestIdle bounds how long polls may leave the outbox alone.
const longestIdle = time.Second

// rarestPoll bounds the time between polls, in PollIntervals, while nothing
// is committed.
const rarestPoll = 4

// idleLog says which polls need not look at the outbox: while the log of the server
// stands where it stood before a look that found nothing, nothing was committed since (ADR 24).
//
// A transaction is visible a little after the record of its commit was written, so a
// look between the two finds nothing. Hence there must have been a second one, a
// PollInterval after the first. Where a commit takes longer than that, as with a slow
// standby that it waits for, and nobody rings, its events wait for longestIdle at most.
type idleLog struct {
	position string    // of the log before the last look; empty: it was no proof
	since    time.Time // the first look in a row that began there
	looked   time.Time // the last one
}

// note records a look at every partition that found nothing. An empty position records a look that proves nothing.
func (q *idleLog) note(position string, began time.Time) {
	if position != q.position {
		q.position, q.since = position, began
	}
	q.looked = began
}

// lasts reports whether a poll may be left out if the log stands where it stood.
func (q *idleLog) lasts(now time.Time, poll time.Duration) bool {
	return q.position != "" && q.looked.Sub(q.since) >= poll && now.Sub(q.looked) < longestIdle
}

// watermarkPoll lies between two looks at a watermark that waits for a
// transaction that is about to end.
const watermarkPoll = 5 * time.Millisecond

// backoff is the wait for the next look: the usual interval, or less
// while the watermark is behind and moves.
type backoff struct {
	least, most time.Duration
	wait        time.Duration
	seen        int64
	since       time.Time // when the watermark was behind and had moved last
}

func (p *backoff) next(now time.Time, w *delivery.Watermark) time.Duration {
	if w == nil || w.Lag() == 0 {
		p.wait = 0
		return p.most
	}
	if p.wait == 0 || w.Safe != p.seen {
		p.wait, p.since = p.least, now
	} else {
		p.wait = min(2*p.wait, p.most)
	}
	p.seen = w.Safe
	return min(p.wait, p.most)
}

// moving reports whether the watermark is behind and may still move soon.
func (p *backoff) moving(now time.Time) bool { return p.wait > 0 && now.Sub(p.since) < time.Second }

// coarse sequences further a look at requested partitions has the watermark stored. Whoever looks behind it
// proves the rest anew. Polls keep the row true enough for those who read it.
const coarse = 256

// apart is the distance in sequences from which on the watermark is stored behind a look.
func (l look) apart() int {
	if l.every {
		return 1
	}
	return coarse
}
