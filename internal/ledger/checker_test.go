package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds a wait that should end at once, so that a defect fails the test
// instead of hanging it.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestReceptionBeforeCommittedHasLatencyZero(t *testing.T) {
	t.Parallel()
	s := newScenario(3, 1, 1)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	l.Begin(s.entries[:1])
	receiveAll(c, s.messages[:2]) // the second is not even begun
	l.Committed(s.entries, epoch)
	l.Finish()
	if r := c.Report(); r.Lost != 1 || r.Received != 2 || r.LatencyMax != 0 {
		t.Errorf("two of three received: %s", r)
	}
	c.Receive(s.messages[2])
	r := c.Report()
	if !r.OK() || r.Committed != 3 || r.Received != 3 || r.LatencyMax != 0.002 {
		t.Errorf("all received, the last 2 ms after its commit: %s max %v", r, r.LatencyMax)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestDeclarationThatContradictsAnEarlierReception(t *testing.T) {
	t.Parallel()
	s := newScenario(1, 1, 1)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	s.messages[0].BodyHash++
	receiveAll(c, s.messages)
	l.Committed(s.entries, epoch)
	expectKinds(t, c.Report(), []ledger.FaultKind{ledger.KindAltered})
}

func TestUnknownOutcomeIsSettledByReception(t *testing.T) {
	t.Parallel()
	s := newScenario(4, 2, 1)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	l.Begin(s.entries)
	l.Committed(s.entries[:1], epoch)
	l.Unknown(s.entries[1:3]) // the fourth stays open
	l.Finish()
	c.Receive(s.messages[0])
	c.Receive(s.messages[1])
	r := c.Report()
	if !r.OK() || r.Committed != 2 || r.Received != 2 || r.UnknownReceived != 1 || r.Unknown != 2 {
		t.Errorf("%s: %+v", r, r)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(2, 1, 1)
		l := ledger.New()
		c := newChecker(t, ledger.Config{Ledger: l})
		ctx := soon(t)
		waited := make(chan error, 1)
		go func() { waited <- c.Wait(ctx) }()

		l.Committed(s.entries, epoch)
		receiveAll(c, s.messages)
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("drained before the producers finished: %v", err)
		default:
		}
		l.Finish()
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		<-c.Drained()
	})
}

func TestWaitSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newScenario(3, 1, 1)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	l.Committed(s.entries, epoch)
	l.Finish()
	c.Receive(s.messages[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.Wait(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 of 3") {
		t.Errorf("got %v", err)
	}
	if err := newChecker(t, ledger.Config{}).Wait(soon(t)); !errors.Is(err, ledger.ErrNoLedger) {
		t.Errorf("without a ledger: %v", err)
	}
}

func TestSeveralCheckersOfOneLedger(t *testing.T) {
	t.Parallel()
	s := newScenario(10, 2, 1)
	l := ledger.New()
	first := newChecker(t, ledger.Config{Ledger: l})
	l.Committed(s.entries, epoch)
	second := newChecker(t, ledger.Config{Ledger: l}) // joins late
	l.Finish()
	receiveAll(first, s.messages)
	receiveAll(second, s.messages[:9])
	if err := first.Wait(soon(t)); err != nil {
		t.Error(err)
	}
	select {
	case <-second.Drained():
		t.Error("the second lacks one")
	default:
	}
	if r := second.Report(); r.Lost != 1 {
		t.Error(r)
	}
}

func TestConcurrentProducersAndReports(t *testing.T) {
	t.Parallel()
	const events = 5000
	s := newScenario(events, 50, 8)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			for i := p; i < events; i += 4 {
				l.Begin(s.entries[i : i+1])
				l.Committed(s.entries[i:i+1], time.Now())
			}
		})
	}
	producers.Go(func() {
		for _, m := range s.messages {
			m.ReceivedAt = time.Time{}
			c.Receive(m)
		}
	})
	producers.Go(func() {
		for range 20 {
			c.Report()
		}
	})
	producers.Wait()
	l.Finish()
	if err := c.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	if r := c.Report(); !r.OK() || r.Received != events {
		t.Error(r)
	}
}

func TestReportJSONNames(t *testing.T) {
	t.Parallel()
	s := newScenario(100, 10, 5)
	l := ledger.New()
	c := newChecker(t, ledger.Config{Ledger: l})
	l.Committed(s.entries, epoch)
	receiveAll(c, s.messages)
	encoded, err := json.Marshal(c.Report())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"committed": 100, "received": 100, "lost": 0, "reordered": 0, "duplicates": 0,
		"events_per_second": 100 / 0.099, "latency_p50_seconds": 0.049, "latency_p99_seconds": 0.098,
	}
	for name, value := range want {
		got, ok := fields[name].(float64)
		if !ok || got < value*0.99 || got > value*1.04 {
			t.Errorf("%s = %v, want about %v", name, fields[name], value)
		}
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]ledger.Config{
		"Ordering":           {Ordering: "global"},
		"ContiguousVersions": {ContiguousVersions: true},
		"FaultsKept":         {FaultsKept: -1},
	} {
		_, err := ledger.NewChecker(config)
		if !errors.Is(err, ledger.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestFaultsAreCountedPastTheKeptOnes(t *testing.T) {
	t.Parallel()
	s := newScenario(100, 10, 5)
	for i := range 50 {
		s.messages = append(s.messages, s.copyOf(i))
	}
	c := newChecker(t, ledger.Config{FaultsKept: 3})
	receiveAll(c, s.messages)
	if r := c.Report(); r.Duplicates != 50 || len(r.Faults) != 3 {
		t.Errorf("%d duplicates, %d kept", r.Duplicates, len(r.Faults))
	}
}

// Who waits longest, and how long each waited, is known while the producers go on.
func TestOldestAndLatency(t *testing.T) {
	t.Parallel()
	s := newScenario(4, 2, 1)
	l := ledger.New()
	var latencies []time.Duration
	c := newChecker(t, ledger.Config{Ledger: l, Latency: func(committed, received time.Time) {
		latencies = append(latencies, received.Sub(committed))
	}})
	oldest := func(want time.Duration) {
		t.Helper()
		if at := c.Oldest(); !at.Equal(epoch.Add(want)) {
			t.Errorf("the oldest is of %s, want %s", at, epoch.Add(want))
		}
	}
	if at := c.Oldest(); !at.IsZero() {
		t.Errorf("nothing was committed, and the oldest is of %s", at)
	}
	l.Begin(s.entries[:1]) // and its outcome comes last
	l.Committed(s.entries[1:2], epoch)
	l.Committed(s.entries[2:3], epoch.Add(time.Second))
	oldest(0)
	for before, want := range map[time.Duration]int{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2} {
		if n := c.Overdue(epoch.Add(before)); n != want {
			t.Errorf("%d events were committed before %s and not received, want %d", n, before, want)
		}
	}
	s.messages[1].ReceivedAt = epoch.Add(time.Minute)
	c.Receive(s.messages[1])
	oldest(time.Second)
	c.Receive(s.messages[3]) // before its producer says so
	l.Committed(s.entries[3:], epoch.Add(2*time.Second))
	c.Receive(s.messages[2])
	if at := c.Oldest(); !at.IsZero() {
		t.Errorf("everything was received, and the oldest is of %s", at)
	}
	if n := c.Overdue(epoch.Add(time.Hour)); n != 0 {
		t.Errorf("everything was received, and %d events are overdue", n)
	}
	l.Committed(s.entries[:1], epoch.Add(3*time.Second))
	oldest(3 * time.Second)
	if len(latencies) != 3 || latencies[0] != time.Minute || latencies[1] != 0 {
		t.Errorf("the latencies are %v", latencies)
	}
}
