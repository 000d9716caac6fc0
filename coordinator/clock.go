package coordinator

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// A step of the database's clock is named from stepCounts on, at most once in stepsNamed; a standing difference
// between it and this process's wall clock above skewCounts.
const (
	stepCounts = 10 * time.Millisecond
	stepsNamed = 5 * time.Second
	skewCounts = 5 * time.Second
)

// drift bounds the difference that two clocks gain while nobody sets them. A faster slew counts as a step.
func drift(over time.Duration) time.Duration { return over / 1000 }

// clock compares the database's clock with this process's own ones. No delivery rests on any of them (ADR 4).
type clock struct {
	steps, skew atomic.Int64

	asked, at time.Time // asked at the first look, with its monotonic reading; the database's answer
	last      time.Time // asked at the last look
	// The database's clock leads the monotonic one by low to high, less the lead at the first look.
	low, high time.Duration

	stepped time.Duration // by steps since the last line of the log
	unnamed bool
	named   time.Time
	skewed  bool
}

// look takes the database's time between two instants here; zero: it gave none.
func (c *clock) look(log *slog.Logger, asked, answered, at time.Time) {
	if at.IsZero() {
		return
	}
	c.step(log, asked, answered, at)
	took := answered.Sub(asked)
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

// step compares the bounds that two looks set: a step lies between bounds that exclude each other. A slow answer widens them.
func (c *clock) step(log *slog.Logger, asked, answered, at time.Time) {
	if c.at.IsZero() {
		c.asked, c.at, c.last, c.low = asked, at, asked, asked.Sub(answered)
		return
	}
	ahead := at.Sub(c.at)
	low, high := ahead-answered.Sub(c.asked), ahead-asked.Sub(c.asked)
	was, apart := (c.low+c.high)/2, drift(asked.Sub(c.last))
	c.last, c.low, c.high = asked, max(c.low-apart, low), min(c.high+apart, high)
	if c.low-c.high > stepCounts { // the bounds exclude each other
		c.steps.Add(1)
		c.stepped, c.unnamed = c.stepped+(low+high)/2-was, true
	}
	if c.low > c.high {
		c.low, c.high = low, high
	}
	if c.unnamed && answered.Sub(c.named) > stepsNamed {
		log.Warn("the database's clock has stepped; deliveries go on, leases are watched by the workers' own clocks; to mend it: let its machine's clock be slewed, not set",
			"by", c.stepped.Round(time.Millisecond))
		c.named, c.stepped, c.unnamed = answered, 0, false
	}
}
