package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// standingLog is a database of which only the position of its log is asked.
type standingLog struct {
	backend
	position string
	err      error
}

func (s *standingLog) Position(context.Context) (string, error) { return s.position, s.err }

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
