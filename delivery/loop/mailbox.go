package loop

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// report is the end of work that was done beside the loop. Only the loop applies it.
type report interface{ apply(r *Relay) }

// mailbox holds reports for the loop. Whoever posts one never waits.
type mailbox struct {
	arrived chan struct{} // holds one entry while there may be reports

	mu      sync.Mutex
	reports []report
}

func newMailbox() mailbox { return mailbox{arrived: make(chan struct{}, 1)} }

// post adds a report behind all that were posted before.
func (m *mailbox) post(p report) {
	m.mu.Lock()
	m.reports = append(m.reports, p)
	m.mu.Unlock()
	select {
	case m.arrived <- struct{}{}:
	default:
	}
}

// begin does a piece of work beside the loop, which applies the report of it; nil: there is nothing to do.
func (r *Relay) begin(work func() report) {
	r.work++
	r.working.Go(func() { r.mail.post(ended{work()}) })
}

// read applies the reports that came.
func (r *Relay) read() {
	r.mail.mu.Lock()
	reports := r.mail.reports
	r.mail.reports = nil
	r.mail.mu.Unlock()
	for _, p := range reports {
		p.apply(r)
	}
}

// ended is the end of a piece of work.
type ended struct{ of report }

func (e ended) apply(r *Relay) {
	r.work--
	if e.of != nil {
		e.of.apply(r)
	}
}

// taken is the end of a takeover.
type taken struct {
	lease   *lease.Lease
	known   *term // what the loop knows of the partition
	found   *term // nil: the takeover was not begun
	err     error
	stopped bool // the relay is to end
}

func (t taken) apply(r *Relay) {
	if t.found != nil {
		t.known.learn(t.found)
		r.taken(t.lease, t.err, t.stopped)
	}
	r.leaveUnclaimed(t.lease, t.found != nil && t.err == nil)
}

// unread is a look whose events could not be read.
type unread struct {
	look     []*inflight
	reserved int64 // bytes
	err      error // nil: the relay is to end
}

func (u unread) apply(r *Relay) {
	r.bytes += u.reserved
	if u.err != nil {
		r.away(u.err)
	}
	for _, c := range u.look {
		r.unpublishable(c)
	}
}

// unused are reserved bytes that a look did not need. They are negative where one payload is larger than what was
// reserved: the window is in debt until its batch is settled.
type unused int64

func (n unused) apply(r *Relay) { r.bytes += int64(n) }

// answered is a batch with the outcomes of its messages.
type answered struct{ *inflight }

func (a answered) apply(r *Relay) { r.answered(a.inflight) }

// acquitted is a batch of which nothing is known, and over which no worker ended.
type abandoned struct{ *inflight }

func (a abandoned) apply(r *Relay) { r.complete(a.inflight) }

// marked is the end of a mark of several partitions.
type marked struct {
	group   []*term
	results []delivery.Result
	fenced  []partition.ID
	err     error
}

func (m marked) apply(r *Relay) {
	r.marks.underWay = false
	if m.err != nil {
		r.log.Warn("mark failed; each partition is marked for itself", "error", m.err, "partitions", len(m.results))
	}
	for i, t := range m.group {
		switch {
		case m.err != nil:
			t.failing = true
			r.markAlone(t, m.results[i])
		case slices.Contains(m.fenced, t.lease.Partition):
			r.endMark(t)
		default:
			r.noteMark(t, m.results[i])
		}
	}
}

// markedAlone is the end of a mark of one partition.
type markedAlone struct {
	*term
	result delivery.Result
	how    markEnd
}

// markEnd is the end of a mark that was tried again and again.
type markEnd uint8

const (
	markMade      markEnd = iota
	markFenced            // by another owner
	markForgotten         // the database has forgotten marks before it
	markGivenUp           // the lease or the relay ended
)

func (m markedAlone) apply(r *Relay) {
	m.failing = false
	switch m.how {
	case markMade:
		r.noteMark(m.term, m.result)
	case markForgotten:
		r.unmarkable(m.term)
	case markGivenUp:
		m.revision++ // what is marked next vouches for this one, and is refused unless it was made
		r.endMark(m.term)
	case markFenced:
		r.endMark(m.term)
	}
}

// advanced is the end of storing the watermark.
type advanced struct{ err error }

func (a advanced) apply(r *Relay) { r.advancing, r.behind = false, a.err != nil }

// trimmed is the end of removing records.
type trimmed struct{ err error }

func (t trimmed) apply(r *Relay) { r.trimmed(t.err) }

// looked is the stream as it is set now.
type looked struct{ now delivery.Extent }

func (l looked) apply(r *Relay) { r.fit(l.now) }

// doubted is the stream behind an answer that hints at a setting.
type doubted struct {
	answer  error
	now     delivery.Extent
	unknown error // why the stream could not be looked at
}

func (d doubted) apply(r *Relay) {
	switch {
	case d.unknown != nil:
		r.away(d.unknown)
	case d.now.Unfit != nil:
		r.fit(d.now)
		r.away(d.now.Unfit)
	default:
		r.fatal = cmp.Or(r.fatal, d.answer)
	}
}

// heldUp stops claims for the sake of an error; without one the relay goes on.
type heldUp struct{ err error }

func (h heldUp) apply(r *Relay) {
	if r.held != nil && h.err == nil {
		r.pause.until = time.Time{}
		r.stats.pausedUntil.set(time.Time{})
		r.wakeAll()
	}
	r.held = h.err
}

// returned is a transform that had run past its time: what waited for one goes on.
type returned struct{}

func (returned) apply(r *Relay) { r.wakeAll() }
