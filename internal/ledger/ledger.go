package ledger

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// Entry is one event as its producer knows it. Only EventID must be set; a zero field of another kind is not compared with the received one.
type Entry struct {
	EventID   uuid.UUID
	Stream    string
	Version   int64
	Sequence  int64
	Partition partition.ID // compared where Sequence is set
	BodyHash  uint64       // HashBody of the payload
}

type outcome uint8

const (
	unannounced outcome = iota // received, but not declared by a producer (yet)
	open                       // Begin without an outcome
	committed
	failed
	unknown
)

func (o outcome) String() string {
	return [...]string{"unannounced", "open", "committed", "failed", "unknown"}[o]
}

// record is one event in the ledger. It holds no pointers, so that millions of them cost the garbage collector nothing.
type record struct {
	eventID     uuid.UUID
	version     int64
	sequence    int64
	bodyHash    uint64
	committedAt int64 // Unix nanoseconds
	stream      uint32
	partition   partition.ID
	outcome     outcome
}

// Ledger holds the producers' declarations of their events. Its methods are safe for concurrent use. The zero value is not usable; see [New].
type Ledger struct {
	mu       sync.Mutex
	index    map[uuid.UUID]uint32
	records  []record
	streams  map[string]uint32
	names    []string
	checkers []*Checker

	committed int
	started   time.Time // the first declaration
	finished  bool
	faults    faultList
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		index:   make(map[uuid.UUID]uint32),
		streams: map[string]uint32{"": 0},
		names:   []string{""},
		faults:  newFaultList(defaultFaultsKept),
	}
}

// Begin declares events whose transaction is about to commit. It is optional, but a producer that dies between Begin and an outcome leaves an
// open entry, which is judged like an unknown one; without Begin, its commits would look like phantoms.
func (l *Ledger) Begin(entries []Entry) {
	l.declare(entries, open, time.Now())
}

// Committed declares events whose transaction committed; at is the time of the commit's return, by the clock that also times the receptions.
func (l *Ledger) Committed(entries []Entry, at time.Time) {
	l.declare(entries, committed, at)
}

// Failed declares events whose transaction certainly did not commit.
func (l *Ledger) Failed(entries []Entry) {
	l.declare(entries, failed, time.Now())
}

// Unknown declares events whose transaction may have committed: the connection was lost while COMMIT was under way. A later Committed or
// Failed settles it, and so does reception.
func (l *Ledger) Unknown(entries []Entry) {
	l.declare(entries, unknown, time.Now())
}

// Finish declares that no further event will be committed. Only then can a checker be drained.
func (l *Ledger) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = true
	for _, c := range l.checkers {
		c.signalDrainedLocked()
	}
}

func (l *Ledger) declare(entries []Entry, what outcome, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started.IsZero() {
		l.started = at
	}
	for i := range entries {
		l.declareLocked(&entries[i], what, at)
	}
}

func (l *Ledger) declareLocked(e *Entry, what outcome, at time.Time) {
	index, fresh := l.recordLocked(e.EventID)
	r := &l.records[index]
	before := r.outcome
	if l.finished && what != before {
		l.faults.add(l.fault(KindLedger, r, "declared %s after Finish", what))
	}
	settled := before == committed || before == failed
	switch {
	case !fresh && settled && what != before:
		l.faults.add(l.fault(KindLedger, r, "declared %s and later %s", before, what))
		return
	case before == unknown && what == open:
		l.faults.add(l.fault(KindLedger, r, "declared unknown and later begun again"))
		return
	}
	if !fresh {
		l.compareLocked(e, r)
	}
	l.fillLocked(e, r)
	r.outcome = what
	if what != committed || before == committed {
		return
	}
	r.committedAt = at.UnixNano()
	l.committed++
	for _, c := range l.checkers {
		c.committedLocked(int(index))
	}
}

// recordLocked finds or makes the record of an event.
func (l *Ledger) recordLocked(id uuid.UUID) (index uint32, fresh bool) {
	if index, ok := l.index[id]; ok {
		return index, false
	}
	index = uint32(len(l.records))
	l.records = append(l.records, record{eventID: id})
	l.index[id] = index
	return index, true
}

// fillLocked fills the record's empty fields from the producer.
func (l *Ledger) fillLocked(e *Entry, r *record) {
	if e.Stream != "" {
		r.stream = l.streamLocked(e.Stream)
	}
	if e.Version != 0 {
		r.version = e.Version
	}
	if e.Sequence != 0 {
		r.sequence, r.partition = e.Sequence, e.Partition
	}
	if e.BodyHash != 0 {
		r.bodyHash = e.BodyHash
	}
}

func (l *Ledger) streamLocked(name string) uint32 {
	if n, ok := l.streams[name]; ok {
		return n
	}
	name = strings.Clone(name) // it may share memory with a whole message
	n := uint32(len(l.names))
	l.streams[name] = n
	l.names = append(l.names, name)
	return n
}

// compareLocked blames a declaration that differs from the record of a message received earlier, or of an earlier declaration.
func (l *Ledger) compareLocked(e *Entry, r *record) {
	if difference := l.differenceLocked(e, r); difference != "" {
		l.faults.add(l.fault(KindAltered, r, "declaration and record differ: %s", difference))
	}
}

// differenceLocked names the first field that e and r both have and in which they disagree; "" if there is none. The record's value comes
// first.
func (l *Ledger) differenceLocked(e *Entry, r *record) string {
	differ := func(field string, recorded, said any) string {
		return fmt.Sprintf("%s %v, now %v", field, recorded, said)
	}
	switch {
	case r.stream != 0 && e.Stream != "" && l.names[r.stream] != e.Stream:
		return differ("stream", quoted(l.names[r.stream]), quoted(e.Stream))
	case r.version != 0 && e.Version != 0 && r.version != e.Version:
		return differ("stream version", r.version, e.Version)
	case r.sequence != 0 && e.Sequence != 0 && r.sequence != e.Sequence:
		return differ("sequence", r.sequence, e.Sequence)
	case r.sequence != 0 && e.Sequence != 0 && r.partition != e.Partition:
		return differ("partition", r.partition, e.Partition)
	case r.bodyHash != 0 && e.BodyHash != 0 && r.bodyHash != e.BodyHash:
		return differ("body hash", hex(r.bodyHash), hex(e.BodyHash))
	}
	return ""
}

func (l *Ledger) fault(kind FaultKind, r *record, format string, args ...any) Fault {
	return Fault{
		Kind:      kind,
		EventID:   r.eventID,
		Stream:    l.names[r.stream],
		Version:   r.version,
		Sequence:  r.sequence,
		Partition: r.partition,
		Text:      fmt.Sprintf(format, args...),
	}
}

func quoted(s string) string { return fmt.Sprintf("%q", clip(s)) }

func hex(n uint64) string { return fmt.Sprintf("%016x", n) }
