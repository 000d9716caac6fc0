package loop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/lease/leasetest"
)

// standingLog is a database in which nothing waits.
type standingLog struct {
	delivery.Store

	mu        sync.Mutex
	position  string
	err       error
	expecting bool
	looks     int
	advance   bool // is worth it
	refused   error
	refusals  int
}

func (s *standingLog) Advance(context.Context, int) (delivery.Watermark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != nil {
		s.refusals++
	} else {
		s.advance = false
	}
	return delivery.Watermark{}, s.refused
}

func (s *standingLog) Position(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position, s.err
}

func (s *standingLog) Claim(context.Context, []delivery.Ask, delivery.Limits, delivery.FailurePolicy) (delivery.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return delivery.Claim{Began: s.position, Expecting: s.expecting, Advance: s.advance}, nil
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

// relay runs one that holds a partition which is taken, until it is stopped.
func (s *standingLog) relay(t *testing.T, cfg Config) (r *Relay, stop func()) {
	t.Helper()
	r, err := NewRelay(cfg, s, instant{}, Silence{})
	if err != nil {
		t.Fatal(err)
	}
	l := leasetest.Held(1, 1)
	r.stateOf(l).state = ready
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, lease.UntimedSet(l)) }()
	return r, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Only a claim that found nothing, where nothing comes due and nothing is undecided, proves anything.
func TestWhatProvesThatNothingIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim delivery.Claim
		want  string
	}{
		"nothing":                     {delivery.Claim{Began: "0/A", Watermark: delivery.Watermark{Safe: 7, Highest: 7}}, "0/A"},
		"a batch":                     {delivery.Claim{Began: "0/A", Batches: []delivery.Batch{{}}}, ""},
		"a row that comes due":        {delivery.Claim{Began: "0/A", Expecting: true}, ""},
		"a watermark that waits":      {delivery.Claim{Began: "0/A", Watermark: delivery.Watermark{Safe: 7, Highest: 8}}, ""},
		"a claim that was not made":   {delivery.Claim{}, ""},
		"nothing, without watermark":  {delivery.Claim{Began: "0/A"}, "0/A"},
		"a watermark that is further": {delivery.Claim{Began: "0/A", Watermark: delivery.Watermark{Safe: 8, Highest: 7}}, "0/A"},
	} {
		if got := c.claim.NothingUpTo(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// In silence a relay looks about once a second instead of at every poll, but at the next poll when something was committed, and at
// every poll where something may come due.
func TestARelayInSilenceHardlyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &standingLog{}
		r, stop := log.relay(t, Config{Ordering: delivery.OrderStream})
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
		stop()
	})
}

// No look waits for the watermark to be stored; where that cannot be, delivery pauses and says why, as long as it lasts.
func TestAWatermarkThatCannotBeStoredIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &standingLog{advance: true, refused: errors.New("permission denied for table outbox_watermark")}
		r, stop := log.relay(t, Config{Ordering: delivery.OrderPartition, Logger: slog.New(slog.DiscardHandler)})
		if looks := log.looksAfter("0/A", false, time.Minute); looks > 3 || log.refusals < 10 {
			t.Errorf("%d looks and %d refusals, want hardly a look and more refusals", looks, log.refusals)
		}
		if s := r.Stats(); len(s.Errors) != 1 || !strings.Contains(s.Errors[0].Text, "outbox_watermark") || s.PausedFor == 0 {
			t.Errorf("it says %+v", s)
		}
		log.mu.Lock()
		log.refused = nil
		log.mu.Unlock()
		if looks := log.looksAfter("0/A", false, time.Minute); looks < 50 || log.advance {
			t.Errorf("%d looks behind that, and it is to be stored: %t", looks, log.advance)
		}
		stop()
	})
}
