package source

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
)

// base is a whole second, after returns times behind it.
var base = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return base.Add(d) }

// look is what the database gives at some time about that long, with so many events in each whole second.
func look(at time.Time, within time.Duration, perSecond int64) pgstore.Recent {
	r := pgstore.Recent{At: at, Since: at.Add(-within)}
	for s := r.Since.Truncate(time.Second); s.Before(at); s = s.Add(time.Second) {
		r.Seconds = append(r.Seconds, pgstore.Second{At: s, Published: perSecond})
	}
	return r
}

func TestSecondsAreThoseThatWereLookedAt(t *testing.T) {
	t.Parallel()
	var r recentReader
	want := func(when string, got []Second, first time.Time, counts ...int64) {
		t.Helper()
		if len(got) != len(counts) || len(got) > 0 && !got[0].At.Equal(first) {
			t.Errorf("%s: %v, want %d seconds from %s on", when, got, len(counts), first)
			return
		}
		for i, one := range got {
			if one.Published != counts[i] || !one.At.Equal(first.Add(time.Duration(i)*time.Second)) {
				t.Errorf("%s: second %d is %v, want %d", when, i, one, counts[i])
			}
		}
	}
	// Neither the second that was cut at the beginning nor the one that is still filling is whole.
	want("at first", r.add(look(after(3500*time.Millisecond), 3200*time.Millisecond, 7)), after(time.Second), 7, 7)
	// What is looked at again may have grown: a batch was committed after the look.
	want("the next one", r.add(look(after(5100*time.Millisecond), 3*time.Second, 9)), after(time.Second), 7, 7, 9, 9)
	// A second in which nothing was published is known, too.
	want("in silence", r.add(pgstore.Recent{At: after(7 * time.Second), Since: after(4 * time.Second)}), after(time.Second), 7, 7, 9, 0, 0, 0)
	// What lies between two looks is not known.
	want("after a gap", r.add(look(after(20*time.Second), 2*time.Second, 1)), after(18*time.Second), 1, 1)

	long := r.add(look(after(time.Hour), time.Minute, 3))
	for at := time.Second; at <= 400*time.Second; at += time.Second {
		long = r.add(look(after(time.Hour+at), 10*time.Second, 3))
	}
	if len(long) != 300 || !long[299].At.Equal(after(time.Hour+399*time.Second)) || len(r.seconds) > 301 {
		t.Errorf("after long: %d seconds, %d kept, up to %v", len(long), len(r.seconds), long[len(long)-1])
	}
}
