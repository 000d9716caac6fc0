package delivery

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// NamesKept bounds the topics, and the types, that metrics tell apart.
	NamesKept = 50
	// OtherName stands for all that are not told apart.
	OtherName = "other"
	// longestLabel is the longest name that metrics show, in bytes.
	longestLabel = 128
)

// Names makes labels of names that producers choose: the first NamesKept are told apart for as long as the process lives, whatever
// comes later is OtherName. So are names above 128 bytes, and those of other than printable characters. Its zero value is ready.
type Names struct {
	mu   sync.Mutex
	kept []string
	is   map[string]bool
}

// Label returns the name itself, or OtherName.
func (n *Names) Label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.is[name]:
		return name
	case len(n.kept) == NamesKept || name == OtherName || !showable(name):
		return OtherName
	}
	if n.is == nil {
		n.is = map[string]bool{}
	}
	name = strings.Clone(name) // it may lie in the memory of a whole batch
	n.is[name], n.kept = true, append(n.kept, name)
	return name
}

// Kept are the names that are told apart, in the order in which they came.
func (n *Names) Kept() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept[:len(n.kept):len(n.kept)]
}

func showable(name string) bool {
	return name != "" && len(name) <= longestLabel && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// tally counts outcomes by a name of the messages.
type tally struct {
	names             Names
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
	t.counters = t.ofLocked(OtherName)
	return t
}

// ofLocked allocates only when a name is new.
func (t *tally) ofLocked(name string) *outcomeCounters {
	if t.counters != nil && name == t.last {
		return t.counters
	}
	c := t.known[name]
	if c == nil && t.full {
		c = t.known[OtherName]
	}
	if c == nil {
		label := t.names.Label(name)
		if c = t.known[label]; c == nil {
			c = &outcomeCounters{label, t.published.WithLabelValues(label), t.failed.WithLabelValues(label)}
			t.known[label] = c
			t.full = len(t.known) > NamesKept
		}
	}
	t.last, t.counters = c.label, c
	return c
}

// count counts the outcomes of a batch by the name that of gives each message.
func (t *tally) count(res Result, of func(*Message) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range res.Outcomes {
		switch o.Kind {
		case Published:
			t.ofLocked(of(&res.Batch.Messages[i])).published.Inc()
		case Retry, Permanent:
			t.ofLocked(of(&res.Batch.Messages[i])).failed.Inc()
		case Unresolved, Skipped, Behind, Scheduled:
		}
	}
}

func topicOf(m *Message) string { return m.Topic }

// typeOf is the type as it is stored; OtherName where it could not be read.
func typeOf(m *Message) string {
	if m.Event == nil {
		return OtherName
	}
	return m.Event.Type
}
