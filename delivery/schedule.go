package delivery

import "time"

// schedule decides when the outbox is looked at, and whether all of it. It is pure: the
// relay's loop tells it what happens and when, and does what next says.
//
// There is a reason to look when a doorbell rings, something became claimable, or a poll
// is due. What comes until the look begins shares it.
type schedule struct {
	poll  time.Duration // PollInterval
	batch int           // BatchSize
	once  bool          // each look asks for everything

	wanted time.Time // since when there is a reason to look; zero: there is none
	owed   bool      // a poll is the reason, or one of them
	ready  time.Time // since when the publisher is, of those with a reason
	due    time.Time // the next poll
	apart  time.Duration
	every  time.Time // the last look that asked for every partition
	last   look
	little bool
	lag    patience
	still  quiet
	quick  time.Duration // how soon a poll comes after one that found what nobody rang for; 0: in its time
}

func newSchedule(cfg Config, once bool) *schedule {
	return &schedule{
		poll: cfg.PollInterval, batch: cfg.BatchSize, once: once, little: true,
		lag: patience{least: watermarkPoll, most: cfg.PollInterval},
	}
}

// look is what a look at the outbox came to.
type look struct {
	began, ended time.Time
	every        bool // every partition that is held was to be asked for
	asked, found int
	little       bool
	// position of the log up to which nothing waits anywhere; empty: something may.
	position string
}

// full tells that more may wait than was found.
func (l look) full(batch int) bool {
	return l.asked == 0 || l.found >= batch || l.little && l.found >= littleLook
}

type observation struct {
	every      bool      // something concerns every partition
	named      bool      // rings named some
	unanswered bool      // something is between claim and answer
	gathers    bool      // the publisher sends together what it is given, and
	ready      bool      // would send at once
	pause      time.Time // nothing is done before
}

type action uint8

const (
	actWait      action = iota // wait for what happens
	actProbe                   // ask whether the log of the server stands where it stood
	actLookNamed               // at what was named
	actLookAll                 // look at everything
)

// quickPoll is how soon the outbox is looked at again after a poll found something: whoever appended
// it does not ring. With each poll that finds nothing the wait doubles, up to a PollInterval.
const quickPoll = 2500 * time.Microsecond

// longestBreather bounds what pacing adds to the latency for the database's sake.
const longestBreather = 5 * time.Millisecond

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

// next says what to do now; actWait: for so long.
//
// A look that found little is followed by a rest as long as it took: what comes
// meanwhile shares the next one, and a database that is slow is asked less often. With
// a publisher that gathers, what it found is answered before, if that is soon: until
// it can send again, partitions could not be claimed, or only to wait.
func (s *schedule) next(now time.Time, o observation) (action, time.Duration) {
	if !s.owed && !s.once && !o.every && !o.named { // a ring was for others, or a look came before it was heard
		s.wanted = time.Time{}
	}
	if s.wanted.IsZero() {
		if wait := s.due.Sub(now); wait > 0 {
			return actWait, wait
		}
		if s.still.lasts(now, s.poll) {
			return actProbe, 0
		}
		s.owe(now)
	}
	until := o.pause
	if !s.last.full(s.batch) {
		until = later(until, s.last.ended.Add(min(s.last.ended.Sub(s.last.began), longestBreather)))
		if o.gathers {
			until = later(until, s.gathered(now, o))
		}
	}
	if wait := until.Sub(now); wait > 0 {
		return actWait, wait
	}
	if s.once || o.every || !o.named || now.Sub(s.every) >= s.poll {
		return actLookAll, 0
	}
	return actLookNamed, 0
}

// gathered is how long the publisher and its answers are waited for at most.
func (s *schedule) gathered(now time.Time, o observation) time.Time {
	switch {
	case !o.ready:
		return s.wanted.Add(s.poll)
	case s.ready.IsZero():
		s.ready = now
	}
	if o.unanswered {
		return later(s.wanted.Add(2*longestBreather), s.ready.Add(longestBreather))
	}
	return time.Time{}
}

// looked takes a look into account, and where the watermark stood.
func (s *schedule) looked(l look, w *Watermark) {
	switch {
	case !s.owed:
	case l.found > 0:
		s.quick = min(quickPoll, s.poll)
	default:
		if s.quick *= 2; s.quick >= s.poll {
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
	s.apart = min(2*s.apart, rarestPoll*s.poll)
	s.due = now.Add(s.apart)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

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

// lasts tells whether a poll may be left out if the log stands where it stood.
func (q *quiet) lasts(now time.Time, poll time.Duration) bool {
	return q.position != "" && q.looked.Sub(q.since) >= poll && now.Sub(q.looked) < longestQuiet
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

func (p *patience) next(now time.Time, w *Watermark) time.Duration {
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

// moving tells whether the watermark is behind and may still move soon.
func (p *patience) moving(now time.Time) bool { return p.wait > 0 && now.Sub(p.since) < time.Second }
