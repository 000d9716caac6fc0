package projection

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// outagePause is the rest of a stream whose transaction failed for no fault of its events.
const outagePause = 500 * time.Millisecond

// settleTime bounds the statements that give a stream back.
const settleTime = 10 * time.Second

// longestError bounds a stored error, in bytes.
const longestError = 1000

// backoff returns the wait after the nth failure, from 1: min(base · 2^(n-1), max).
func (c Config) backoff(n int) time.Duration {
	wait := c.BackoffBase
	for ; n > 1 && wait < c.BackoffMax; n-- {
		wait *= 2
	}
	return min(wait, c.BackoffMax)
}

// fail stores a failure of a stream's head. In mode shadow no attempt is counted and nothing dies.
func (p *Projection) fail(ctx context.Context, c claim, blamed *eventError) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	attempts, failures := c.attempts+1, c.attempts+1
	dead := attempts >= p.cfg.MaxAttempts || permanent(blamed)
	if p.cfg.Mode == Shadow {
		attempts, dead = c.attempts, false
		p.mu.Lock()
		p.failures[c.stream]++
		failures = p.failures[c.stream]
		p.mu.Unlock()
	}
	wait := p.cfg.backoff(failures)
	text := fmt.Sprintf("version %d: %v", blamed.version, blamed.cause)
	if len(text) > longestError {
		text = text[:longestError]
	}
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	tag, err := p.sql.Fail.Exec(ctx, p.cfg.Pool, p.arguments(c, pg.Args{"attempts": attempts, "error": text, "wait": wait, "dead": dead}))
	if err != nil {
		return fmt.Errorf("note the failure of stream %q: %w", c.stream, err)
	}
	if tag.RowsAffected() != 1 {
		p.metrics.lost.Inc()
		p.log.WarnContext(ctx, "a stream has another owner, its failure here is not counted", "stream", c.stream, "epoch", c.epoch)
		return nil
	}
	p.metrics.failed.Inc()
	if !dead {
		p.log.WarnContext(ctx, "an event could not be applied", "stream", c.stream, "version", blamed.version,
			"failures", failures, "again_in", wait, "error", blamed.cause)
		return nil
	}
	p.metrics.died.Inc()
	p.metrics.dead.Inc() // until the next look counts them
	p.log.ErrorContext(ctx, "the head of a stream is dead: the stream stands still until it is requeued", "stream", c.stream,
		"version", blamed.version, "attempts", attempts, "error", blamed.cause)
	return nil
}

// giveBack ends the lease early; when it cannot, the lease runs out.
func (p *Projection) giveBack(ctx context.Context, c claim) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if _, err := p.sql.Release.Exec(ctx, p.cfg.Pool, p.arguments(c, pg.Args{"wait": outagePause})); err != nil {
		p.log.DebugContext(ctx, "a stream could not be given back, its lease runs out", "stream", c.stream, "error", err)
	}
}

// forget drops mode shadow's memory of a stream's failures.
func (p *Projection) forget(stream string) {
	if p.cfg.Mode != Shadow {
		return
	}
	p.mu.Lock()
	delete(p.failures, stream)
	p.mu.Unlock()
}
