package loop

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/postrider/postrider/delivery"
)

// errorsKept bounds the last errors that Stats returns.
const errorsKept = 5

// Stats counts what a relay did since its start.
type Stats struct {
	Claimed, Published, Skipped, Failed, Retried, Dead int64
	// Fenced messages were refused by the database because their lease had gone
	// elsewhere; Refused batches by the broker, because it knew a newer owner.
	Fenced, Refused int64
	// Late rows turned up below the cursor; Losses and Regressions count what the
	// stream or the database had forgotten.
	Late, Losses, Regressions int64
	// Watermark is the one of the last claim; zero without one.
	Watermark delivery.Watermark
	InFlight  int
	// PausedFor is the rest of a pause after an outage.
	PausedFor time.Duration
	// Errors are the last ones, newest first.
	Errors []LastError
}

// LastError is an error and when it happened last.
type LastError struct {
	At    time.Time
	Text  string
	Count int
}

type stats struct {
	claimed, published, skipped, failed, retried, dead, fenced atomic.Int64
	refused, late, losses, regressions                         atomic.Int64
	inFlight                                                   atomic.Int64
	flowed, pausedUntil                                        moment
	watermark                                                  atomic.Pointer[delivery.Watermark]
	latency                                                    prometheus.Histogram
	byTopic, byType                                            *tally

	mu     sync.Mutex
	errors []LastError
}

// moment is a time that keeps its monotonic clock: a wall clock that steps back would stretch what is measured from it.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set(t time.Time) { m.at.Store(&t) }

// get returns the zero time where none was set.
func (m *moment) get() (t time.Time) {
	if at := m.at.Load(); at != nil {
		t = *at
	}
	return t
}

func (s *stats) init(reg prometheus.Registerer) {
	factory := promauto.With(reg)
	s.byTopic, s.byType = newTally(factory, "topic"), newTally(factory, "type")
	s.latency = factory.NewHistogram(prometheus.HistogramOpts{
		Name:    "outbox_publish_latency_seconds",
		Help:    "Time from recording an event, or from the time it was scheduled for, to its acknowledgement by the stream.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 20),
	})
	for name, c := range map[string]struct {
		help  string
		value *atomic.Int64
	}{
		"outbox_claimed_total":              {"Messages read from the outbox.", &s.claimed},
		"outbox_published_total":            {"Messages acknowledged by the stream and marked.", &s.published},
		"outbox_skipped_total":              {"Audit-only events that were done without publishing.", &s.skipped},
		"outbox_failed_total":               {"Failed attempts that a message caused.", &s.failed},
		"outbox_retried_total":              {"Messages published after at least one failed attempt.", &s.retried},
		"outbox_died_total":                 {"Messages that became dead.", &s.dead},
		"outbox_fenced_total":               {"Messages whose writes the database refused because the lease had gone to another worker.", &s.fenced},
		"outbox_fence_refused_total":        {"Batches and takeovers that the stream refused because it knew a newer owner.", &s.refused},
		"outbox_late_rows_total":            {"Rows that turned up below their partition's cursor.", &s.late},
		"outbox_stream_losses_total":        {"Times that a partition's acknowledged messages were missing from the stream.", &s.losses},
		"outbox_database_regressions_total": {"Times that the database had forgotten published events.", &s.regressions},
	} {
		factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: c.help},
			func() float64 { return float64(c.value.Load()) })
	}
}

func (s *stats) failure(err error) {
	if err == nil {
		return
	}
	text := delivery.Reason(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.errors {
		if f.Text == text {
			copy(s.errors[1:i+1], s.errors[:i])
			s.errors[0] = LastError{At: time.Now(), Text: text, Count: f.Count + 1}
			return
		}
	}
	s.errors = append([]LastError{{At: time.Now(), Text: text, Count: 1}}, s.errors...)
	s.errors = s.errors[:min(len(s.errors), errorsKept)]
}

// Lost counts a loss of the stream that others found, and shows it among the errors.
func (r *Relay) Lost(err error) {
	r.stats.losses.Add(1)
	r.stats.failure(err)
}

func (s *stats) completed(res delivery.Result, retry delivery.RetryPolicy) {
	s.byTopic.count(res, topicOf)
	s.byType.count(res, typeOf)
	for i, o := range res.Outcomes {
		switch o.Kind {
		case delivery.Published:
			s.published.Add(1)
			if res.Batch.Messages[i].Attempts > 0 {
				s.retried.Add(1)
			}
		case delivery.Skipped:
			s.skipped.Add(1)
		case delivery.Retry, delivery.Permanent:
			s.failed.Add(1)
			if retry.Dies(res.Batch.Messages[i], o) {
				s.dead.Add(1)
			}
		case delivery.Unresolved, delivery.Behind, delivery.Scheduled:
		}
	}
}

// Stats returns the counts so far.
func (r *Relay) Stats() Stats {
	s := &r.stats
	st := Stats{
		Claimed: s.claimed.Load(), Published: s.published.Load(), Skipped: s.skipped.Load(),
		Failed: s.failed.Load(), Retried: s.retried.Load(), Dead: s.dead.Load(),
		Fenced: s.fenced.Load(), Refused: s.refused.Load(),
		Late: s.late.Load(), Losses: s.losses.Load(), Regressions: s.regressions.Load(),
	}
	if w := s.watermark.Load(); w != nil {
		st.Watermark = *w
	}
	s.mu.Lock()
	st.Errors = append(st.Errors, s.errors...)
	s.mu.Unlock()
	st.InFlight = int(s.inFlight.Load())
	st.PausedFor = max(0, time.Until(s.pausedUntil.get()))
	return st
}

// tally counts outcomes by a name of the messages.
type tally struct {
	names             delivery.Names
	published, failed *prometheus.CounterVec

	mu    sync.Mutex
	known map[string]*outcomeCounters // of the names that are told apart, and of OtherName
	// last is the name that was counted before: messages of one name come in runs.
	last     string
	counters *outcomeCounters
	full     bool // what is not known is OtherName
}

type outcomeCounters struct {
	label             string
	published, failed prometheus.Counter
}

func newTally(factory promauto.Factory, label string) *tally {
	t := &tally{
		published: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_published_by_" + label + "_total",
			Help: "Messages acknowledged by the stream and marked, by " + label + "; at most 50 of them, the rest is other.",
		}, []string{label}),
		failed: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_failed_by_" + label + "_total",
			Help: "Failed attempts that a message caused, by " + label + "; at most 50 of them, the rest is other.",
		}, []string{label}),
		known: map[string]*outcomeCounters{},
	}
	t.counters = t.ofLocked(delivery.OtherName)
	return t
}

// ofLocked allocates only when a name is new.
func (t *tally) ofLocked(name string) *outcomeCounters {
	if t.counters != nil && name == t.last {
		return t.counters
	}
	c := t.known[name]
	if c == nil && t.full {
		c = t.known[delivery.OtherName]
	}
	if c == nil {
		label := t.names.Label(name)
		if c = t.known[label]; c == nil {
			c = &outcomeCounters{label, t.published.WithLabelValues(label), t.failed.WithLabelValues(label)}
			t.known[label] = c
			t.full = len(t.known) > delivery.NamesKept
		}
	}
	t.last, t.counters = c.label, c
	return c
}

// count counts the outcomes of a batch by the name that of gives each message.
func (t *tally) count(res delivery.Result, of func(*delivery.Message) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range res.Outcomes {
		switch o.Kind {
		case delivery.Published:
			t.ofLocked(of(&res.Batch.Messages[i])).published.Inc()
		case delivery.Retry, delivery.Permanent:
			t.ofLocked(of(&res.Batch.Messages[i])).failed.Inc()
		case delivery.Unresolved, delivery.Skipped, delivery.Behind, delivery.Scheduled:
		}
	}
}

func topicOf(m *delivery.Message) string { return m.Topic }

// typeOf is the type as it is stored; OtherName where it could not be read.
func typeOf(m *delivery.Message) string {
	if m.Event == nil {
		return delivery.OtherName
	}
	return m.Event.Type
}
