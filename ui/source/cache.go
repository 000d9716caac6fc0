package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/postrider/postrider/lease"
)

// ErrNoSnapshot is returned while the source has never answered.
var ErrNoSnapshot = errors.New("no snapshot has been read yet")

// CacheConfig tunes a Cache.
type CacheConfig struct {
	// Interval is the least time between two reads of the source, failed ones included. At least 100 ms. Defaults to 1 s.
	Interval time.Duration
	// Timeout bounds one read. Defaults to 5 s.
	Timeout time.Duration
	// StaleAfter is the age past which a snapshot is stale. At least Interval. Defaults to 15 s.
	StaleAfter time.Duration
	// Logger receives the causes of failed reads. Defaults to discarding.
	Logger *slog.Logger
}

// logError is the key of a failure in the log.
const logError = "error"

const (
	defaultInterval   = time.Second
	leastInterval     = 100 * time.Millisecond
	defaultTimeout    = 5 * time.Second
	defaultStaleAfter = 15 * time.Second
)

func (c CacheConfig) withDefaults() CacheConfig {
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.StaleAfter = cmp.Or(c.StaleAfter, defaultStaleAfter)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate names the first field whose value is refused.
func (c CacheConfig) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Interval < leastInterval:
		return fmt.Errorf("ui: CacheConfig.Interval %v is below %v", c.Interval, leastInterval)
	case c.Timeout < 0:
		return fmt.Errorf("ui: CacheConfig.Timeout %v is negative", c.Timeout)
	case c.StaleAfter < c.Interval:
		return fmt.Errorf("ui: CacheConfig.StaleAfter %v is below the interval %v", c.StaleAfter, c.Interval)
	}
	return nil
}

// Cache reads a source at most once an interval and shares the snapshot among its callers. Concurrent callers wait for one read. It is safe
// for concurrent use, starts no goroutine that outlives a read, and is itself a Source.
type Cache struct {
	source Source
	config CacheConfig
	flight singleflight.Group

	mu       sync.Mutex
	last     Snapshot
	readAt   time.Time // start of the read that gave last; zero before the first
	triedAt  time.Time // start of the latest read
	lastFail error     // of the latest read
}

// NewCache puts a cache before the source.
func NewCache(source Source, config CacheConfig) (*Cache, error) {
	if source == nil {
		return nil, errors.New("ui: NewCache: the source is nil")
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Cache{source: source, config: config.withDefaults()}, nil
}

// Observation is a snapshot with its freshness.
type Observation struct {
	Snapshot
	// Age is the time since the snapshot's read began, on this process's monotonic clock.
	Age time.Duration
	// Stale says that Age has passed CacheConfig.StaleAfter.
	Stale bool
	// Err is the failure of the latest read, nil when it succeeded.
	Err error
}

// Trouble says in general words why a snapshot is old; empty: it is not. The cause may name hosts and users and stays in the
// log.
func (o Observation) Trouble() string {
	switch {
	case errors.Is(o.Err, context.DeadlineExceeded):
		return "The database did not answer in time."
	case o.Err != nil:
		return "The database did not answer. The log of this process tells why."
	case o.Stale:
		return "No newer snapshot was read."
	default:
		return ""
	}
}

// Observe returns the current snapshot, or the last one when the source fails. Its error wraps ErrNoSnapshot without one, and is the
// context's when that ended first.
func (c *Cache) Observe(ctx context.Context) (Observation, error) {
	return c.ObserveWithin(ctx, c.config.Interval)
}

// Snapshot implements Source. Unlike Observe it fails on a stale snapshot.
func (c *Cache) Snapshot(ctx context.Context) (Snapshot, error) {
	seen, err := c.Observe(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if seen.Stale {
		return Snapshot{}, fmt.Errorf("ui: the snapshot is %v old: %w", seen.Age.Round(time.Second), seen.Err)
	}
	return seen.Snapshot, nil
}

// Ownership asks the source each time; the cache keeps none of it.
func (c *Cache) Ownership(ctx context.Context, q lease.HistoryQuery) (lease.History, error) {
	return c.source.Ownership(ctx, q)
}

// Interval returns the least time between two reads.
func (c *Cache) Interval() time.Duration { return c.config.Interval }

// ObserveWithin reads the source when the latest read is at least maxAge old.
func (c *Cache) ObserveWithin(ctx context.Context, maxAge time.Duration) (Observation, error) {
	if c.due(maxAge) {
		done := c.flight.DoChan("snapshot", func() (any, error) {
			// The first caller may leave; the others still want the answer.
			if c.due(maxAge) {
				c.read(context.WithoutCancel(ctx))
			}
			return nil, nil
		})
		select {
		case <-done:
		case <-ctx.Done():
			return Observation{}, fmt.Errorf("ui: wait for a snapshot: %w", ctx.Err())
		}
	}
	return c.current()
}

// Outdate makes the next call read the source, since somebody changed the state.
func (c *Cache) Outdate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.triedAt = time.Time{}
}

func (c *Cache) due(maxAge time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.triedAt.IsZero() || time.Since(c.triedAt) >= maxAge
}

func (c *Cache) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	began := time.Now()
	snapshot, err := c.source.Snapshot(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	failedBefore := c.lastFail != nil
	c.triedAt, c.lastFail = began, err
	if err != nil {
		if !failedBefore {
			c.config.Logger.WarnContext(ctx, "monitor cannot read its snapshot", logError, Scrub(err.Error()))
		}
		return
	}
	if failedBefore {
		c.config.Logger.InfoContext(ctx, "monitor reads its snapshot again")
	}
	c.last, c.readAt = snapshot, began
}

func (c *Cache) current() (Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readAt.IsZero() {
		if c.lastFail == nil {
			return Observation{}, ErrNoSnapshot
		}
		return Observation{}, fmt.Errorf("%w: %w", ErrNoSnapshot, c.lastFail)
	}
	age := time.Since(c.readAt)
	return Observation{Snapshot: c.last, Age: age, Stale: age > c.config.StaleAfter, Err: c.lastFail}, nil
}
