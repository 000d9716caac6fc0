package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/ledger"
)

// Each case breaks a flawless run in one way and says what must be reported,
// with a ledger and without one.
var faultCases = []struct {
	name      string
	config    ledger.Config // the ledger is added
	disturb   func(s *scenario)
	kinds     []ledger.FaultKind // with a ledger
	tailKinds []ledger.FaultKind // without
}{
	{name: "none", disturb: func(*scenario) {}},
	{
		name:    "one dropped",
		disturb: func(s *scenario) { s.drop(17) },
		kinds:   []ledger.FaultKind{ledger.KindLost},
	},
	{
		name:    "the last dropped",
		disturb: func(s *scenario) { s.drop(len(s.messages) - 1) },
		kinds:   []ledger.FaultKind{ledger.KindLost},
	},
	{
		name:    "one dropped, versions contiguous",
		config:  ledger.Config{ContiguousVersions: true},
		disturb: func(s *scenario) { s.drop(17) },
		kinds:   []ledger.FaultKind{ledger.KindLost, ledger.KindVersionGap},
	},
	{
		name:      "two of a stream swapped",
		config:    ledger.Config{Ordering: ledger.ByStream},
		disturb:   func(s *scenario) { s.swap(20, 30) },
		kinds:     []ledger.FaultKind{ledger.KindReorderedStream},
		tailKinds: []ledger.FaultKind{ledger.KindReorderedStream},
	},
	{
		name:      "two of a partition swapped, ordering partition",
		disturb:   func(s *scenario) { s.swap(20, 25) },
		kinds:     []ledger.FaultKind{ledger.KindReorderedPartition},
		tailKinds: []ledger.FaultKind{ledger.KindReorderedPartition},
	},
	{
		name:    "two of a partition swapped, ordering stream",
		config:  ledger.Config{Ordering: ledger.ByStream},
		disturb: func(s *scenario) { s.swap(20, 25) },
	},
	{
		name:    "two of different partitions swapped",
		disturb: func(s *scenario) { s.swap(20, 21) },
	},
	{
		name:      "version goes back",
		disturb:   func(s *scenario) { s.messages[30].StreamVersion = 3; s.entries[30].Version = 3 },
		kinds:     []ledger.FaultKind{ledger.KindReorderedStream},
		tailKinds: []ledger.FaultKind{ledger.KindReorderedStream},
	},
	{
		name:      "one doubled",
		disturb:   func(s *scenario) { s.messages = append(s.messages, s.copyOf(40)) },
		kinds:     []ledger.FaultKind{ledger.KindDuplicate},
		tailKinds: []ledger.FaultKind{ledger.KindDuplicate},
	},
	{
		name: "one doubled, stored places unknown",
		disturb: func(s *scenario) {
			s.messages = append(s.messages, s.copyOf(40))
			for i := range s.messages {
				s.messages[i].StreamSequence = 0
			}
		},
		kinds:     []ledger.FaultKind{ledger.KindDuplicate},
		tailKinds: []ledger.FaultKind{ledger.KindDuplicate},
	},
	{
		name: "one delivered twice by the consumer",
		disturb: func(s *scenario) {
			s.messages = append(s.messages, s.messages[40])
		},
	},
	{
		name: "one replayed at a higher generation",
		disturb: func(s *scenario) {
			m := s.copyOf(40)
			m.Generation = 1
			s.messages = append(s.messages, m)
		},
	},
	{
		name: "generation 0 after generation 1",
		disturb: func(s *scenario) {
			m := s.copyOf(40)
			s.messages[40].Generation = 1
			s.messages = append(s.messages, m)
		},
		kinds:     []ledger.FaultKind{ledger.KindDuplicate},
		tailKinds: []ledger.FaultKind{ledger.KindDuplicate},
	},
	{
		name:    "a body corrupted",
		disturb: func(s *scenario) { s.messages[5].BodyHash++ },
		kinds:   []ledger.FaultKind{ledger.KindAltered},
	},
	{
		name: "a copy's body corrupted",
		disturb: func(s *scenario) {
			m := s.copyOf(40)
			m.BodyHash++
			s.messages = append(s.messages, m)
		},
		kinds:     []ledger.FaultKind{ledger.KindAltered, ledger.KindDuplicate},
		tailKinds: []ledger.FaultKind{ledger.KindAltered, ledger.KindDuplicate},
	},
	{
		name:    "a partition altered",
		disturb: func(s *scenario) { s.messages[5].Partition = 100 },
		kinds:   []ledger.FaultKind{ledger.KindAltered},
	},
	{
		name: "a message id of another event",
		disturb: func(s *scenario) {
			s.messages[5].MessageID = s.messages[6].EventID.String()
		},
		kinds:     []ledger.FaultKind{ledger.KindAltered},
		tailKinds: []ledger.FaultKind{ledger.KindAltered},
	},
	{
		name:    "an event nobody declared",
		disturb: func(s *scenario) { s.entries = s.entries[:len(s.entries)-1] },
		kinds:   []ledger.FaultKind{ledger.KindPhantom},
	},
	{
		name:    "an event nobody declared, foreign allowed",
		config:  ledger.Config{AllowForeign: true},
		disturb: func(s *scenario) { s.entries = s.entries[:len(s.entries)-1] },
	},
	{
		name: "an epoch goes back",
		disturb: func(s *scenario) {
			for i := range s.messages {
				s.messages[i].Epoch = int64(1 + i/50)
			}
			s.messages[60].Epoch = 1
		},
		kinds:     []ledger.FaultKind{ledger.KindEpoch},
		tailKinds: []ledger.FaultKind{ledger.KindEpoch},
	},
	{
		name: "a message of an old epoch delivered again by the consumer",
		disturb: func(s *scenario) {
			for i := range s.messages {
				s.messages[i].Epoch = int64(1 + i/50)
			}
			s.messages = append(s.messages, s.messages[0])
		},
	},
}

func TestEveryFaultIsDetected(t *testing.T) {
	t.Parallel()
	for _, test := range faultCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(100, 10, 5)
			test.disturb(s)

			config := test.config
			config.Ledger = ledger.New()
			c := newChecker(t, config)
			config.Ledger.Committed(s.entries, epoch)
			config.Ledger.Finish()
			receiveAll(c, s.messages)
			expectKinds(t, c.Report(), test.kinds)

			config.Ledger, config.ContiguousVersions = nil, false
			tail := newChecker(t, config)
			receiveAll(tail, s.messages)
			expectKinds(t, tail.Report(), test.tailKinds)
		})
	}
}

func expectKinds(t *testing.T, r ledger.Report, want []ledger.FaultKind) {
	t.Helper()
	got := make(map[ledger.FaultKind]int)
	for _, f := range r.Faults {
		got[f.Kind]++
		if f.Text == "" || !strings.Contains(f.String(), f.Text) {
			t.Errorf("fault says too little: %+v", f)
		}
	}
	for _, kind := range want {
		if got[kind] != 1 {
			t.Errorf("%d faults of kind %s, want 1\n%s", got[kind], kind, r)
		}
		delete(got, kind)
	}
	if len(got) != 0 {
		t.Errorf("unexpected faults %v\n%s", got, r)
	}
	if r.OK() != (len(want) == 0) {
		t.Errorf("OK is %v\n%s", r.OK(), r)
	}
}

func TestFailedButReceivedIsAPhantom(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"failed first", "received first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s := newScenario(2, 1, 1)
			l := ledger.New()
			c := newChecker(t, ledger.Config{Ledger: l})
			l.Begin(s.entries)
			l.Committed(s.entries[:1], epoch)
			if order == "failed first" {
				l.Failed(s.entries[1:])
				receiveAll(c, s.messages)
			} else {
				receiveAll(c, s.messages)
				l.Failed(s.entries[1:])
			}
			expectKinds(t, c.Report(), []ledger.FaultKind{ledger.KindPhantom})
		})
	}
}

func TestExplainedDuplicatesAreForgiven(t *testing.T) {
	t.Parallel()
	s := newScenario(100, 10, 5)
	late := s.copyOf(40)
	early := late
	early.ReceivedAt = epoch.Add(time.Hour)
	early.StreamSequence++
	s.messages = append(s.messages, late, early)
	c := newChecker(t, ledger.Config{})
	receiveAll(c, s.messages)
	c.Explain("worker killed", late.ReceivedAt.Add(-time.Second), late.ReceivedAt)
	r := c.Report()
	if r.Duplicates != 2 || r.DuplicatesExplained != 1 || r.ExplainedBy["worker killed"] != 1 || r.OK() {
		t.Errorf("one of two explained: %+v", r)
	}
	if len(r.Faults) != 1 || r.Faults[0].StreamSequence != early.StreamSequence {
		t.Errorf("the unexplained one must be shown: %v", r.Faults)
	}
	c.Explain("acknowledgement lost", early.ReceivedAt, early.ReceivedAt)
	if r := c.Report(); !r.OK() || r.DuplicatesExplained != 2 {
		t.Errorf("both explained: %s", r)
	}
}

func TestParkedStreamsMayFallBehindTheirPartition(t *testing.T) {
	t.Parallel()
	s := newScenario(100, 10, 5)
	s.swap(20, 25)
	c := newChecker(t, ledger.Config{})
	c.Park(s.messages[25].Stream)
	receiveAll(c, s.messages)
	if r := c.Report(); !r.OK() {
		t.Error(r)
	}
}

// What a resize moved comes after newer events of the partition that had this number before. Within the new partition order is judged.
func TestAResizeBeginsAPartitionAnew(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		allowed    bool
		generation int32 // of what comes afterwards
		epoch      int64
		right      bool
	}{
		{allowed: true, generation: 1, epoch: 2, right: true},
		{allowed: false, generation: 1, epoch: 2},
		{allowed: true, generation: 1, epoch: 1},
		{allowed: true, generation: 0, epoch: 2},
	} {
		s := newScenario(100, 10, 5)
		s.swap(20, 25)
		for i := range s.messages {
			s.messages[i].Epoch = 1
			if i >= 25 {
				s.messages[i].Generation, s.messages[i].Epoch = one.generation, one.epoch
			}
		}
		l := ledger.New()
		c := newChecker(t, ledger.Config{Ledger: l, AllowMoved: one.allowed})
		l.Committed(s.entries, epoch)
		receiveAll(c, s.messages)
		if r := c.Report(); r.OK() != one.right {
			t.Errorf("%+v: %s", one, r)
		}
	}
}

func TestLateRequeueIsJudgedUnlessAllowed(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		s := newScenario(100, 10, 5)
		requeued := s.copyOf(40)
		requeued.Generation = 1
		s.drop(40)
		s.messages = append(s.messages, requeued)
		l := ledger.New()
		c := newChecker(t, ledger.Config{Ledger: l, AllowLateRequeue: allowed})
		l.Committed(s.entries, epoch)
		receiveAll(c, s.messages)
		if r := c.Report(); r.OK() != allowed || r.Lost != 0 {
			t.Errorf("allowed %v: %s", allowed, r)
		}
	}
}

func TestContradictoryProducerIsReported(t *testing.T) {
	t.Parallel()
	contradictions := map[string]func(l *ledger.Ledger, e []ledger.Entry){
		"committed then failed": func(l *ledger.Ledger, e []ledger.Entry) { l.Committed(e, epoch); l.Failed(e) },
		"failed then committed": func(l *ledger.Ledger, e []ledger.Entry) { l.Failed(e); l.Committed(e, epoch) },
		"begun after finish":    func(l *ledger.Ledger, e []ledger.Entry) { l.Finish(); l.Begin(e) },
		"unknown then begun":    func(l *ledger.Ledger, e []ledger.Entry) { l.Unknown(e); l.Begin(e) },
	}
	for name, contradict := range contradictions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New()
			c := newChecker(t, ledger.Config{Ledger: l})
			contradict(l, newScenario(1, 1, 1).entries)
			if r := c.Report(); r.LedgerFaults != 1 || r.OK() {
				t.Error(r)
			}
		})
	}
}
