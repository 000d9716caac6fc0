package coordinator

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// A step of the database's clock is named above stepCounts; a standing difference between it and this
// process's wall clock above skewCounts.
const (
	stepCounts = time.Second
	skewCounts = 5 * time.Second
)

// clock compares the database's clock with this process's own ones. No delivery rests on any of them (ADR 4).
type clock struct {
	steps, skew atomic.Int64

	asked  time.Time // the last look's; its monotonic reading is what counts
	at     time.Time
	skewed bool
}

// look is told of the time that the database gave between two instants here; zero: it gave none.
func (c *clock) look(log *slog.Logger, asked, answered, at time.Time) {
	if at.IsZero() {
		return
	}
	took := answered.Sub(asked)
	if !c.at.IsZero() {
		step := at.Sub(c.at) - asked.Sub(c.asked)
		if step < -stepCounts-took || step > stepCounts+took {
			c.steps.Add(1)
			log.Warn("the database's clock has stepped; deliveries go on, leases are watched by the workers' own clocks; to mend it: let its machine's clock be slewed, not set",
				"by", step.Round(time.Millisecond))
		}
	}
	c.asked, c.at = asked, at
	skew := at.Sub(answered.Round(0).Add(-took / 2))
	c.skew.Store(int64(skew))
	if skewed := skew < -skewCounts-took || skew > skewCounts+took; skewed != c.skewed {
		c.skewed = skewed
		if skewed {
			log.Warn("the database's clock and this worker's differ; to mend it: let both machines follow the same time servers", "by", skew.Round(time.Millisecond))
		} else {
			log.Info("the database's clock and this worker's agree again")
		}
	}
}
