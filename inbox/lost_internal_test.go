package inbox

import (
	"testing"
	"time"
)

// What came after a message lies behind a time of the server's clock, which may be behind the one that gave the message its time.
func TestAMarkIsFoundByTheServersClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := now.Add(-10 * time.Minute)
	for name, c := range map[string]struct {
		at           int64
		here, server time.Time
		want         time.Time // zero: not known
	}{
		"one clock":              {ago.UnixNano(), now, now, ago.Add(-lostMargin)},
		"a bound":                {-ago.UnixNano(), now, now, ago},
		"a slow way":             {-ago.UnixNano(), now, now.Add(-10 * time.Second), ago},
		"an hour behind":         {ago.UnixNano(), now, now.Add(-time.Hour), ago.Add(-lostMargin - time.Hour)},
		"a bound, and behind":    {-ago.UnixNano(), now, now.Add(-time.Hour), ago.Add(-time.Hour)},
		"an hour ahead":          {ago.UnixNano(), now, now.Add(time.Hour), ago.Add(-lostMargin)},
		"later than now":         {now.Add(time.Hour).UnixNano(), now, now, time.Time{}},
		"a server without clock": {ago.UnixNano(), now, time.Time{}, time.Time{}},
		"no time":                {0, now, now, time.Time{}},
	} {
		if start, known := (mark{1, c.at}).start(c.here, c.server); known == c.want.IsZero() || known && !start.Equal(c.want) {
			t.Errorf("%s: %v, %v; want %v", name, start, known, c.want)
		}
	}
}
