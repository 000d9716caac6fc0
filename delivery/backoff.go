package delivery

import (
	"fmt"
	"math"
	"time"
)

// Jitter spreads retry times.
type Jitter string

// The kinds of jitter.
const (
	// JitterEqual draws from [d/2, d].
	JitterEqual Jitter = "equal"
	// JitterNone takes d.
	JitterNone Jitter = "none"
)

// RetryPolicy says when a message that failed by its own fault is tried again.
type RetryPolicy struct {
	// Base, Factor and Max give min(Base·Factor^(n−1), Max) after the n-th failure. Default to 1 s, 2 and 5 min.
	Base   time.Duration
	Factor float64
	Max    time.Duration
	// Jitter defaults to JitterEqual.
	Jitter Jitter
	// MaxAttempts is the number of failures after which a message is dead; 0 means never. Defaults to 8 in DefaultRetryPolicy.
	MaxAttempts int
}

// DefaultRetryPolicy is the policy of a relay that was given none.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Base: time.Second, Factor: 2, Max: 5 * time.Minute, Jitter: JitterEqual, MaxAttempts: 8}
}

// Validate refuses values outside their ranges, by name.
func (p RetryPolicy) Validate() error {
	switch {
	case p.Base <= 0:
		return fmt.Errorf("%w: RetryPolicy.Base must be above 0, got %s", ErrConfig, p.Base)
	case p.Factor < 1 || math.IsInf(p.Factor, 0) || math.IsNaN(p.Factor):
		return fmt.Errorf("%w: RetryPolicy.Factor must be at least 1, got %g", ErrConfig, p.Factor)
	case p.Max < p.Base:
		return fmt.Errorf("%w: RetryPolicy.Max must be at least Base (%s), got %s", ErrConfig, p.Base, p.Max)
	case p.Jitter != JitterEqual && p.Jitter != JitterNone:
		return fmt.Errorf("%w: RetryPolicy.Jitter must be equal or none, got %q", ErrConfig, p.Jitter)
	case p.MaxAttempts < 0:
		return fmt.Errorf("%w: RetryPolicy.MaxAttempts must not be negative, got %d", ErrConfig, p.MaxAttempts)
	}
	return nil
}

// Delay is the wait after the attempts-th failure; random draws from [0, 1).
func (p RetryPolicy) Delay(attempts int, random func() float64) time.Duration {
	d := float64(p.Base) * math.Pow(p.Factor, float64(max(attempts, 1)-1))
	d = min(d, float64(p.Max))
	if p.Jitter == JitterEqual {
		d = d/2 + d/2*random()
	}
	return time.Duration(d)
}

// Dead reports whether that many failures end the attempts.
func (p RetryPolicy) Dead(attempts int) bool {
	return p.MaxAttempts > 0 && attempts >= p.MaxAttempts
}

// Dies says of an outcome that it is the last failure which the policy grants the message.
func (p RetryPolicy) Dies(m Message, o Outcome) bool {
	return o.Kind == Permanent || o.Kind == Retry && p.Dead(m.Attempts+1)
}
