package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/partition"
)

// Ordering is the promise by which order is judged.
type Ordering string

// The orderings a relay can run with.
const (
	// ByPartition: first receptions ascend by sequence within a partition and within a stream.
	ByPartition Ordering = "partition"
	// ByStream: within a stream only.
	ByStream Ordering = "stream"
)

// Config has the settings of a Checker.
type Config struct {
	// Ledger holds the committed events. Without one, loss, phantoms and latency cannot be known and are not judged. Defaults to none.
	Ledger *Ledger
	// Ordering is the promise to judge by. Defaults to ByPartition.
	Ordering Ordering
	// ContiguousVersions demands that a stream's versions have no gap from the first one received. It needs a Ledger, and producers that
	// publish every event. Defaults to false.
	ContiguousVersions bool
	// AllowForeign permits events that no producer declared: they are counted as foreign instead of phantom. Defaults to false.
	AllowForeign bool
	// AllowLateRequeue permits an event to be first received at a generation above 0 after newer events of its stream: a dead one that was
	// requeued later. Without a Ledger this is always permitted. Defaults to false.
	AllowLateRequeue bool
	// AllowMoved permits the number of partitions to change. The generation rises with it: an event above generation 0 may come from another
	// partition than its first. A partition begins anew with a higher generation and epoch. Defaults to false.
	AllowMoved bool
	// LateInPartition gets messages that came after newer events of their partition without fault: with ByStream. It must not call the
	// checker. Defaults to nobody.
	LateInPartition func(Fault)
	// Latency gets every event that is both committed and received, when it became so. It must not call the checker. Needs a Ledger. Defaults
	// to nobody.
	Latency func(committed, received time.Time)
	// FaultsKept faults of each kind are kept with their text; from 1 to 100,000. All are counted. Defaults to 10.
	FaultsKept int
}

// ErrConfig is wrapped by every complaint of Validate.
var ErrConfig = errors.New("checker configuration")

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.Ordering = cmp.Or(c.Ordering, ByPartition)
	c.FaultsKept = cmp.Or(c.FaultsKept, defaultFaultsKept)
	return c
}

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	const faultsKeptMax = 100_000
	switch {
	case c.Ordering != ByPartition && c.Ordering != ByStream:
		return fmt.Errorf("%w: Ordering must be %q or %q, got %q", ErrConfig, ByPartition, ByStream, c.Ordering)
	case c.ContiguousVersions && c.Ledger == nil:
		return fmt.Errorf("%w: ContiguousVersions needs a Ledger", ErrConfig)
	case c.FaultsKept < 1 || c.FaultsKept > faultsKeptMax:
		return fmt.Errorf("%w: FaultsKept must lie between 1 and %d, got %d", ErrConfig, faultsKeptMax, c.FaultsKept)
	}
	return nil
}

// Checker judges the messages of one subscriber. Its methods are safe for concurrent use, but order can be judged only if messages are handed
// over in the order of their reception.
type Checker struct {
	config Config
	// mu guards all below. With a ledger it is the ledger's, so that an outcome and a reception of one event never pass each other.
	mu *sync.Mutex

	tail   *tailMemory
	exact  ledgerMemory
	places map[string]*place
	// partitions is indexed by partition and grows to the highest one seen.
	partitions []partitionPlace
	parked     map[string]bool

	messages    int
	received    int // distinct events
	redelivered int
	replayed    int
	byPartition int // reversals within a partition, judged or not
	outstanding int // committed but not received
	settled     int // up to this record of the ledger there is nothing more to come
	// highestStored is the highest stream sequence seen before the message in hand: a new copy in the stream lies above it.
	highestStored uint64
	firstAt       time.Time
	lastAt        time.Time
	latency       histogram
	duplicates    duplicateList
	reordered     int // messages, each counted once whatever it breaks
	faults        faultList
	justFound     []Fault

	drained       chan struct{}
	drainedClosed bool
}

type place struct {
	sequence, version int64
	streamSeq         uint64
}

type partitionPlace struct {
	sequence        int64
	stored          uint64 // stream sequence of the message at sequence
	generation      int32  // that message's, and its epoch
	epochOf         int64
	epoch           int64
	epochStored     uint64 // highest stream sequence whose epoch was judged
	sequenceAtEpoch int64
}

// NewChecker returns a checker. A ledger may have several; each then judges its own receptions from the ledger's beginning.
func NewChecker(config Config) (*Checker, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := &Checker{
		config:  config,
		mu:      new(sync.Mutex),
		places:  make(map[string]*place),
		parked:  make(map[string]bool),
		faults:  newFaultList(config.FaultsKept),
		drained: make(chan struct{}),
	}
	l := config.Ledger
	if l == nil {
		c.tail = newTailMemory()
		return c, nil
	}
	c.mu = &l.mu
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkers = append(l.checkers, c)
	c.outstanding = l.committed
	c.signalDrainedLocked()
	return c, nil
}

// Park names a stream whose rows were parked by an injected failure: its late messages are no reversal of the partition. Its order within the
// stream stays judged.
func (c *Checker) Park(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked[stream] = true
}

// Receive judges one message and returns the faults it shows, usually none. Report has the faults that only the end can show: loss, and
// phantoms of events whose producer has not spoken yet.
func (c *Checker) Receive(m Message) []Fault {
	if m.ReceivedAt.IsZero() {
		m.ReceivedAt = time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages++
	c.justFound = nil
	c.judgeEpochLocked(&m)
	if m.MessageID != "" && !m.messageIDFits() {
		c.faultLocked(KindAltered, &m, "message id %s is not this event's", quoted(m.MessageID))
	}
	if c.config.Ledger != nil {
		c.receiveWithLedgerLocked(&m)
	} else {
		c.receiveAloneLocked(&m)
	}
	c.highestStored = max(c.highestStored, m.StreamSequence)
	return c.justFound
}

func (c *Checker) receiveAloneLocked(m *Message) {
	at := c.placeLocked(m)
	passed := m.Sequence <= at.sequence
	p := c.tail.note(m, passed)
	if p.ever() {
		c.againLocked(m, p)
		return
	}
	c.countFirstLocked(m)
	if m.Generation > 0 && (passed || m.Partition >= 0 && m.Sequence <= c.partitionLocked(m.Partition).sequence) {
		at.sequence, at.version = max(at.sequence, m.Sequence), max(at.version, m.StreamVersion)
		c.replayed++ // replayed from before this checker's time, or requeued late
		return
	}
	c.judgeOrderLocked(m, at)
}

func (c *Checker) receiveWithLedgerLocked(m *Message) {
	l := c.config.Ledger
	n, _ := l.recordLocked(m.EventID)
	index := int(n)
	r := &l.records[index]
	said := Entry{m.EventID, m.Stream, m.StreamVersion, m.Sequence, m.Partition, m.BodyHash}
	if c.config.AllowMoved && m.Generation > 0 && r.sequence != 0 {
		said.Partition = r.partition
	}
	if difference := l.differenceLocked(&said, r); difference != "" {
		c.faultLocked(KindAltered, m, "not what was committed or received first: %s", difference)
	} else {
		l.fillLocked(&said, r)
	}
	p := c.exact.note(m, index)
	if p.ever() {
		c.againLocked(m, p)
		return
	}
	c.countFirstLocked(m)
	at := c.placeLocked(m)
	if m.Generation > 0 && m.Sequence <= at.sequence && c.config.AllowLateRequeue {
		c.replayed++
	} else {
		c.judgeOrderLocked(m, at)
	}
	switch r.outcome {
	case committed:
		c.outstanding--
		c.timedLocked(r, m.ReceivedAt)
		c.signalDrainedLocked()
	case failed:
		c.justFound = append(c.justFound, c.faultOf(KindPhantom, m, "its transaction failed, yet it was published"))
	}
}

// committedLocked takes an event's commit from the ledger.
func (c *Checker) committedLocked(index int) {
	if c.exact.received(index) {
		r := &c.config.Ledger.records[index]
		c.timedLocked(r, time.Unix(0, r.committedAt)) // the message was faster than the producer's report
		return
	}
	c.outstanding++
}

func (c *Checker) timedLocked(r *record, received time.Time) {
	at := time.Unix(0, r.committedAt)
	c.latency.add(received.Sub(at))
	if c.config.Latency != nil {
		c.config.Latency(at, received)
	}
}

func (c *Checker) countFirstLocked(m *Message) {
	c.received++
	if c.firstAt.IsZero() {
		c.firstAt = m.ReceivedAt
	}
	c.lastAt = m.ReceivedAt
}

func (c *Checker) placeLocked(m *Message) *place {
	at := c.places[m.Stream]
	if at == nil {
		at = &place{}
		c.places[strings.Clone(m.Stream)] = at
	}
	return at
}

func (c *Checker) partitionLocked(id partition.ID) *partitionPlace {
	for int(id) >= len(c.partitions) {
		c.partitions = append(c.partitions, partitionPlace{})
	}
	return &c.partitions[id]
}

func (c *Checker) faultOf(kind FaultKind, m *Message, format string, args ...any) Fault {
	return Fault{
		Kind: kind, Text: fmt.Sprintf(format, args...),
		EventID: m.EventID, Stream: m.Stream, Version: m.StreamVersion, Sequence: m.Sequence,
		Partition: m.Partition, Generation: m.Generation, StreamSequence: m.StreamSequence,
	}
}

func (c *Checker) faultLocked(kind FaultKind, m *Message, format string, args ...any) {
	f := c.faultOf(kind, m, format, args...)
	c.faults.add(f)
	c.justFound = append(c.justFound, f)
}
