package wire

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// DefaultAckTimeout bounds the wait for an answer, unless a publisher was told otherwise.
const DefaultAckTimeout = 5 * time.Second

// leastPatience is the shortest wait for an answer, unless the time-out itself is shorter.
const leastPatience = time.Second

// patience is the wait for an answer before it is asked for again. A leader that stopped never answers, so the wait follows the answers'
// times, as TCP's retransmission does (RFC 6298), and doubles while there are none: a broker that is always slow is not asked in vain for
// ever.
type patience struct {
	most time.Duration // --ack-timeout

	mu           sync.Mutex
	smooth, vary time.Duration // of the answers' times
	silent       int           // waits that ended without an answer, since the last one
}

func (p *patience) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nowLocked()
}

func (p *patience) nowLocked() time.Duration {
	return min(p.most, max(leastPatience, p.smooth+4*p.vary)<<min(p.silent, 10))
}

func (p *patience) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent = 0; p.smooth == 0 {
		p.smooth, p.vary = took, took/2
		return
	}
	p.vary += ((p.smooth - took).Abs() - p.vary) / 4
	p.smooth += (took - p.smooth) / 8
}

// unanswered notes that a wait of that length was in vain. Of simultaneous waits the first one counts.
func (p *patience) unanswered(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waited >= p.nowLocked() {
		p.silent++
	}
}

// retryLeast is the first pause between attempts, retryMost the longest.
const (
	retryLeast = 5 * time.Millisecond
	retryMost  = 250 * time.Millisecond
)

// Pause waits longer with each attempt, which count from 1, 5 to 250 ms; false means that ctx ended.
func Pause(ctx context.Context, attempts int) bool {
	return rest(ctx, min(retryLeast<<min(attempts-1, 10), retryMost))
}

// rest waits; false means that ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// PauseCrowded waits before a batch is sent again for which the stream had no room: longer with each attempt, and with jitter, so that
// waiting senders do not come together. False means that ctx ended.
func PauseCrowded(ctx context.Context, attempts int) bool {
	most := min(retryLeast<<min(attempts, 10), retryMost)
	return rest(ctx, rand.N(most)+retryLeast) // jitter, not a secret
}
