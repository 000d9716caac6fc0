package main

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
)

// skewCounts is the least reported difference between the clocks of the database and this machine.
const skewCounts = 5 * time.Second

// clockFinding reports rows that a step of the database's clock put off, and the difference from this machine's clock.
func clockFinding(living heartbeat.Snapshot, held lease.Snapshot, asked time.Time, err error) finding {
	const check = "clock"
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	var members, partitions int
	for _, w := range living.Workers {
		if w.Ahead {
			members++
		}
	}
	for _, r := range held.Rows {
		if r.Ahead {
			partitions++
		}
	}
	if members+partitions > 0 {
		return finding{check, levelWarning, fmt.Sprintf("the database's clock has stepped back: %d workers' signs of life and %d leases end later than they can; "+
			"workers watch them, and take what nobody renews for as long as a lease lasts; to mend it: let the server's clock be slewed, not set", members, partitions)}
	}
	skew := held.At.Sub(asked).Round(time.Millisecond)
	if !held.At.IsZero() && (skew > skewCounts+time.Since(asked) || skew < -skewCounts) {
		return finding{check, levelWarning, fmt.Sprintf("the database's clock is %s ahead of this machine's; to mend it: let both follow the same time servers", skew)}
	}
	return finding{check, levelOK, "the database's and this machine's agree within 5s"}
}
