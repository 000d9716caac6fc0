package loop

import (
	"testing"
	"time"
)

// planned is a schedule of a relay that has looked already, as long ago as it likes.
func planned(last look) (s *schedule, now time.Time) {
	now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s = newSchedule(Config{BatchSize: 100, PollInterval: 50 * time.Millisecond}, false)
	last.ended = now
	if last.began.IsZero() {
		last.began = now
	}
	last.every = true
	s.looked(last, nil)
	return s, now
}

// until is how long the schedule waits while it sees the same, and what it does then.
func (s *schedule) until(now time.Time, o observation) (waited time.Duration, do action) {
	for at := now; ; {
		do, wait := s.next(at, o)
		if do != actWait {
			return at.Sub(now), do
		}
		at = at.Add(wait)
	}
}

func TestALookComesWithAReasonOrAPoll(t *testing.T) {
	t.Parallel()
	s, now := planned(look{asked: 1})
	if waited, do := s.until(now, observation{}); waited != 50*time.Millisecond || do != actLookAll {
		t.Errorf("without a reason it does %d after %s, want a look when the poll is due", do, waited)
	}
	s, now = planned(look{asked: 1})
	s.want(now.Add(10 * time.Millisecond))
	if waited, do := s.until(now.Add(10*time.Millisecond), observation{every: true}); waited != 0 || do != actLookAll {
		t.Errorf("with a reason it does %d after %s, want a look at once", do, waited)
	}
	s, now = planned(look{asked: 1})
	s.want(now.Add(10 * time.Millisecond))
	if waited, do := s.until(now.Add(10*time.Millisecond), observation{}); waited != 40*time.Millisecond || do != actLookAll {
		t.Errorf("with a ring for others it does %d after %s, want a look when the poll is due", do, waited)
	}
}

// A look that found little is followed by a rest as long as it took, if that was not long.
func TestALookThatFoundLittleIsFollowedByARest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		took, want time.Duration
		last       look
	}{
		{"little", 3 * time.Millisecond, 3 * time.Millisecond, look{asked: 1, found: 99}},
		{"slow", time.Second, longestRest, look{asked: 1}},
		{"a batch", time.Second, 0, look{asked: 1, found: 100}},
		{"as much as a little look may find", time.Second, 0, look{asked: 1, found: littleLook, little: true}},
		{"nobody was asked for", time.Second, 0, look{}},
	} {
		c.last.began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-c.took)
		s, now := planned(c.last)
		s.want(now)
		if got, _ := s.until(now, observation{every: true}); got != c.want {
			t.Errorf("%s: a rest of %s, want %s", c.name, got, c.want)
		}
	}
	s, now := planned(look{asked: 1, found: 100})
	s.want(now)
	if got, _ := s.until(now, observation{every: true, pause: now.Add(time.Second)}); got != time.Second {
		t.Errorf("a pause lasted %s, want 1s", got)
	}
}

// With a publisher that gathers, the next look comes when that could send again and all is marked; neither is waited
// for without end.
func TestALookWaitsForAPublisherThatGathers(t *testing.T) {
	t.Parallel()
	fresh := func() (*schedule, time.Time) {
		s, now := planned(look{asked: 1, found: 1})
		s.want(now)
		return s, now
	}
	s, now := fresh()
	if got, _ := s.until(now, observation{every: true, gathers: true}); got != s.interval {
		t.Errorf("a publisher that is never ready was waited for %s, want %s", got, s.interval)
	}
	s, now = fresh()
	s.next(now, observation{every: true, gathers: true})
	if got, _ := s.until(now.Add(20*time.Millisecond), observation{every: true, gathers: true, ready: true}); got != 0 {
		t.Errorf("when the publisher was ready it waited %s more", got)
	}
	s, now = fresh()
	if got, _ := s.until(now, observation{every: true, gathers: true, ready: true, unanswered: true}); got != 2*longestRest {
		t.Errorf("marks that never come were waited for %s, want %s", got, 2*longestRest)
	}
	s, now = fresh()
	s.next(now, observation{every: true, gathers: true, unanswered: true})
	if got, _ := s.until(now.Add(20*time.Millisecond), observation{every: true, gathers: true, ready: true, unanswered: true}); got != longestRest {
		t.Errorf("marks of what the publisher had in the air were waited for %s, want %s", got, longestRest)
	}
	s, now = fresh()
	s.next(now, observation{every: true, gathers: true, ready: true, unanswered: true})
	if got, _ := s.until(now.Add(2*time.Millisecond), observation{every: true, gathers: true, ready: true}); got != 0 {
		t.Errorf("when all was marked it waited %s more", got)
	}
}

// What rings name is asked for alone; everything is when something concerns all, and once in a PollInterval whatever is named.
func TestALookAsksForWhatWasNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		later time.Duration
		o     observation
		want  action
	}{
		{"named", time.Millisecond, observation{requested: true}, actLookRequested},
		{"nothing is named", time.Millisecond, observation{}, actWait},
		{"for all", time.Millisecond, observation{requested: true, every: true}, actLookAll},
		{"named, and a poll is due", 50 * time.Millisecond, observation{requested: true}, actLookAll},
	} {
		s, now := planned(look{asked: 1, found: 100})
		s.want(now.Add(c.later))
		if do, _ := s.next(now.Add(c.later), c.o); do != c.want {
			t.Errorf("%s: it does %d, want %d", c.name, do, c.want)
		}
	}
	s, now := planned(look{asked: 1, found: 100})
	s.once = true
	s.want(now)
	if do, _ := s.next(now, observation{requested: true}); do != actLookAll {
		t.Error("whoever looks once did not ask for everything")
	}
	// Rings for others do not put off what nobody rang for.
	s, now = planned(look{asked: 1, found: 100})
	at := now
	for do := actLookRequested; do != actLookAll && at.Before(now.Add(2*s.interval)); at = at.Add(time.Millisecond) {
		s.want(at)
		if do, _ = s.next(at, observation{requested: true}); do == actLookRequested {
			s.looked(look{began: at, ended: at, asked: 1, found: 100}, nil)
		}
	}
	if after := at.Add(-time.Millisecond).Sub(now); after != s.interval {
		t.Errorf("beside rings everything was asked for after %s, want %s", after, s.interval)
	}
}

// A poll is left out only after two looks at the same position, an interval apart, and while the log stands there.
func TestPollsAreLeftOutWhileNothingIsCommitted(t *testing.T) {
	t.Parallel()
	const interval = 50 * time.Millisecond
	s, now := planned(look{asked: 1})
	poll := func(name string, position string, want action) {
		t.Helper()
		waited, do := s.until(now, observation{})
		now = now.Add(waited)
		if do != want {
			t.Errorf("%s: it does %d, want %d", name, do, want)
		}
		if do == actLookAll {
			s.looked(look{began: now, ended: now, every: true, asked: 1, position: position}, nil)
		}
	}
	answer := func(name, position string, want time.Duration) {
		t.Helper()
		s.probed(now, position)
		if got, _ := s.until(now, observation{}); got != want {
			t.Errorf("%s: the next after %s, want %s", name, got, want)
		}
	}
	poll("before any look that proves something", "0/A", actLookAll)
	s.owe(now)
	poll("too soon after the first look", "0/A", actLookAll)
	poll("after one look", "0/A", actLookAll)
	poll("after two", "", actProbe)
	answer("after two", "0/A", 2*interval)
	poll("later", "", actProbe)
	answer("later", "0/A", 4*interval)
	poll("in a long silence", "", actProbe)
	answer("in a long silence", "0/A", 4*interval)
	poll("when something was committed", "", actProbe)
	answer("when something was committed", "0/B", 0)
	poll("when something was committed", "0/B", actLookAll)
	poll("after one look there", "0/B", actLookAll)
	poll("when the database does not answer", "", actProbe)
	answer("when the database does not answer", "", 0)
	poll("then", "", actLookAll)
	poll("after looks that prove nothing", "", actLookAll)
	poll("and again", "0/C", actLookAll)
	poll("after one look that does", "0/C", actLookAll)
	for range 8 {
		if waited, do := s.until(now, observation{}); do == actProbe {
			now = now.Add(waited)
			s.probed(now, "0/C")
		}
	}
	poll("after the longest silence", "0/C", actLookAll)
}

// Where a poll finds what nobody rang for, the next polls come soon, and rarer again when they find nothing.
func TestPollsAreQuickWhereNobodyRings(t *testing.T) {
	t.Parallel()
	s, now := planned(look{asked: 1})
	poll := func(found int, want time.Duration) {
		t.Helper()
		waited, do := s.until(now, observation{})
		if waited != want || do != actLookAll {
			t.Errorf("it does %d after %s, want a look after %s", do, waited, want)
		}
		now = now.Add(waited)
		s.looked(look{began: now, ended: now, every: true, asked: 1, found: found}, nil)
	}
	poll(0, s.interval)
	poll(3, s.interval)
	poll(1, quickPoll)
	poll(0, quickPoll)
	poll(0, 2*quickPoll)
	poll(1, 4*quickPoll)
	for wait := quickPoll; wait < s.interval; wait *= 2 {
		poll(0, wait)
	}
	poll(0, s.interval)
	// What a ring announced says nothing of polls.
	s.want(now)
	if do, _ := s.next(now, observation{every: true}); do != actLookAll {
		t.Fatalf("it does %d", do)
	}
	s.looked(look{began: now, ended: now, every: true, asked: 1, found: 1}, nil)
	poll(0, s.interval)
}
