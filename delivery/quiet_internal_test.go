package delivery

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
)

// standingLog is a database in which nothing waits.
type standingLog struct {
	backend

	mu        sync.Mutex
	position  string
	err       error
	expecting bool
	looks     int
}

func (s *standingLog) Position(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position, s.err
}

func (s *standingLog) Claim(context.Context, []Ask, Limits, FailurePolicy) (Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return Claim{began: s.position, expecting: s.expecting}, nil
}

// looksAfter counts the looks in the time after something was committed.
func (s *standingLog) looksAfter(position string, expecting bool, during time.Duration) int {
	s.mu.Lock()
	s.position, s.expecting = position, expecting
	before := s.looks
	s.mu.Unlock()
	<-time.After(during)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks - before
}

// A poll is left out only after two looks at the same position, an interval apart, and while the log stands there.
func TestPollsAreLeftOutWhileNothingIsCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &standingLog{position: "0/A"}
		const interval = 50 * time.Millisecond
		r := &Relay{cfg: Config{PollInterval: interval, StatementTimeout: time.Minute}, store: log}
		var q quiet
		try := func(name string, waited, want time.Duration) {
			t.Helper()
			if next, yes := r.lasts(t.Context(), q, waited); next != want || yes != (want > 0) {
				t.Errorf("%s: left out %t, the next after %s, want %s", name, yes, next, want)
			}
		}
		try("before any look", interval, 0)
		q.note("0/A", time.Now())
		try("after one look", interval, 0)
		<-time.After(interval - 1)
		q.note("0/A", time.Now())
		try("after two that were too close", interval, 0)
		<-time.After(1)
		q.note("0/A", time.Now())
		try("after two", interval, 2*interval)
		try("later", 2*interval, 4*interval)
		try("in a long silence", 4*interval, 4*interval)
		log.position = "0/B"
		try("when something was committed", interval, 0)
		log.position, log.err = "0/A", errors.New("away")
		try("when the database does not answer", interval, 0)
		log.err = nil
		try("when it answers again", interval, 2*interval)
		<-time.After(longestQuiet)
		try("after the longest silence", interval, 0)
		q.note("", time.Now())
		<-time.After(interval)
		q.note("", time.Now())
		log.position = ""
		try("after looks that prove nothing", interval, 0)
	})
}

// Only a claim that found nothing, where nothing comes due and nothing is undecided, proves anything.
func TestWhatProvesThatNothingIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim Claim
		want  string
	}{
		"nothing":                     {Claim{began: "0/A", Watermark: Watermark{Safe: 7, Highest: 7}}, "0/A"},
		"a batch":                     {Claim{began: "0/A", Batches: []Batch{{}}}, ""},
		"a row that comes due":        {Claim{began: "0/A", expecting: true}, ""},
		"a watermark that waits":      {Claim{began: "0/A", Watermark: Watermark{Safe: 7, Highest: 8}}, ""},
		"a claim that was not made":   {Claim{}, ""},
		"nothing, without watermark":  {Claim{began: "0/A"}, "0/A"},
		"a watermark that is further": {Claim{began: "0/A", Watermark: Watermark{Safe: 8, Highest: 7}}, "0/A"},
	} {
		if got := c.claim.nothingUpTo(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// mute is a doorbell that nobody rings.
type mute struct{}

func (mute) Rung() <-chan struct{} { return nil }

// In silence a relay looks about once a second instead of at every poll, but at the next poll when something was committed, and at
// every poll where something may come due.
func TestARelayInSilenceHardlyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &standingLog{}
		l := leasetest.Held(1, 1)
		r, err := newRelay(Config{Ordering: OrderStream}, log, instant{}, mute{})
		if err != nil {
			t.Fatal(err)
		}
		r.flowOfLocked(l).stage = ready
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, lease.UntimedSet(l)) }()
		for _, c := range []struct {
			name        string
			position    string
			expecting   bool
			during      time.Duration
			least, most int
		}{
			{"from the start", "0/A", false, 8 * time.Second, 8, 12},
			{"a commit", "0/B", false, rarestPoll * r.cfg.PollInterval, 1, 3},
			{"silence again", "0/B", false, 8 * time.Second, 7, 10},
			{"something may come due", "0/C", true, 8 * time.Second, 150, 160},
		} {
			if looks := log.looksAfter(c.position, c.expecting, c.during); looks < c.least || looks > c.most {
				t.Errorf("%s: %d looks in %s, want %d to %d", c.name, looks, c.during, c.least, c.most)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
