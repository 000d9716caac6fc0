package loop

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/lease"
)

// Config has the settings of a relay.
type Config struct {
	// BatchSize is the most messages of one partition in one batch; 1 to
	// 10,000. Defaults to 500.
	BatchSize int
	// Window is the most messages between claim and mark over all partitions;
	// at least BatchSize. Defaults to 4096.
	Window int
	// WindowBytes is about the most payload bytes in memory, the copies of
	// transforms and compression included; at least 1 MiB. Defaults to 64 MiB.
	WindowBytes int64
	// MaxPayload is the largest payload that is read at all, in bytes; larger
	// ones fail permanently. Defaults to DefaultMaxPayload; the broker's own limit
	// is usually lower and takes its place, where the payload is sent as it is.
	MaxPayload int64
	// PollInterval lies between two looks at the outbox while no doorbell rings;
	// 1 ms to 1 min. Behind a poll that found something the next come after 2.5 ms. While nothing at all is committed polls become rarer, to a
	// quarter of that, and only ask whether that is so. Defaults to 50 ms.
	PollInterval time.Duration
	// StatementTimeout bounds each round trip to the database. Defaults to 30 s.
	StatementTimeout time.Duration
	// Retry says when failed messages are tried again, Failure what waits for
	// them meanwhile.
	Retry   delivery.RetryPolicy
	Failure delivery.FailurePolicy
	// Ordering is the order of first publications. Defaults to
	// OrderPartition, which rests on CheckStrict.
	Ordering delivery.Ordering
	// Lost chooses the answer to acknowledged messages that the stream does not
	// hold any more. Defaults to LostRepublish.
	Lost delivery.Lost
	// ExtentInterval lies between two questions to the stream whether it still holds what
	// it acknowledged; at least 100 ms. Defaults to 10 s. A new owner asks in any
	// case.
	ExtentInterval time.Duration
	// KeepRecords keeps the records of former batches in the stream for that long: longer than a
	// standby that may be promoted lags behind. Older ones are removed in the background, where the publisher may. Defaults to 0: all stay.
	KeepRecords time.Duration
	// SweepInterval lies between two claims of a partition from its beginning instead
	// of its cursor, for rows that should not be there; at least 100 ms. Defaults
	// to 30 s.
	SweepInterval time.Duration
	// CacheSize bounds the rehydrated events of failed rows that are kept for their
	// next attempt. Defaults to 1024; large payloads are never kept.
	CacheSize int
	// Transforms change what is published, one after the other. Defaults to none.
	Transforms []shape.Transform
	// TransformTimeout bounds the Transforms of one event together, and as much again for each 16 MiB of its payload;
	// 1 ms to 1 min. Defaults to 1 s.
	TransformTimeout time.Duration
	// Random draws from [0, 1) for jitter. Defaults to math/rand/v2.
	Random func() float64
	// Observer is told of each step. Defaults to nobody, at no cost.
	Observer Observer
	// Board is told what stops the relay, and when it goes on. Defaults to none.
	Board *condition.Board
	// Registerer receives the metrics. Defaults to none.
	Registerer prometheus.Registerer
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero.
func (c Config) WithDefaults() Config {
	c.BatchSize = cmp.Or(c.BatchSize, 500)
	c.Window = cmp.Or(c.Window, max(4096, c.BatchSize))
	c.WindowBytes = cmp.Or(c.WindowBytes, 64<<20)
	c.MaxPayload = cmp.Or(c.MaxPayload, delivery.DefaultMaxPayload)
	c.PollInterval = cmp.Or(c.PollInterval, 50*time.Millisecond)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 30*time.Second)
	if c.Retry == (delivery.RetryPolicy{}) {
		c.Retry = delivery.DefaultRetryPolicy()
	}
	c.Failure = cmp.Or(c.Failure, delivery.BehindStream)
	c.Ordering = cmp.Or(c.Ordering, delivery.OrderPartition)
	c.Lost = cmp.Or(c.Lost, delivery.LostRepublish)
	c.ExtentInterval = cmp.Or(c.ExtentInterval, 10*time.Second)
	c.SweepInterval = cmp.Or(c.SweepInterval, 30*time.Second)
	c.CacheSize = cmp.Or(c.CacheSize, 1024)
	c.TransformTimeout = cmp.Or(c.TransformTimeout, time.Second)
	if c.Random == nil {
		c.Random = defaultRandom
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate refuses values outside their ranges, by name.
func (c Config) Validate() error {
	switch {
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return fmt.Errorf("%w: BatchSize must lie between 1 and 10000, got %d", delivery.ErrConfig, c.BatchSize)
	case c.Window < c.BatchSize:
		return fmt.Errorf("%w: Window must be at least BatchSize (%d), got %d", delivery.ErrConfig, c.BatchSize, c.Window)
	case c.WindowBytes < 1<<20:
		return fmt.Errorf("%w: WindowBytes must be at least 1 MiB, got %d", delivery.ErrConfig, c.WindowBytes)
	case c.Ordering != delivery.OrderPartition && c.Ordering != delivery.OrderStream:
		return fmt.Errorf("%w: Ordering must be partition or stream, got %q", delivery.ErrConfig, c.Ordering)
	case c.Failure.Validate() != nil:
		return c.Failure.Validate()
	case c.Lost != delivery.LostRepublish && c.Lost != delivery.LostReport:
		return fmt.Errorf("%w: Lost must be republish or report, got %q", delivery.ErrConfig, c.Lost)
	case c.ExtentInterval < 100*time.Millisecond:
		return fmt.Errorf("%w: ExtentInterval must be at least 100ms, got %s", delivery.ErrConfig, c.ExtentInterval)
	case c.KeepRecords < 0:
		return fmt.Errorf("%w: KeepRecords must not be negative, got %s", delivery.ErrConfig, c.KeepRecords)
	case c.SweepInterval < 100*time.Millisecond:
		return fmt.Errorf("%w: SweepInterval must be at least 100ms, got %s", delivery.ErrConfig, c.SweepInterval)
	case c.MaxPayload < 1:
		return fmt.Errorf("%w: MaxPayload must be above 0, got %d", delivery.ErrConfig, c.MaxPayload)
	case c.PollInterval < time.Millisecond || c.PollInterval > time.Minute:
		return fmt.Errorf("%w: PollInterval must lie between 1ms and 1m, got %s", delivery.ErrConfig, c.PollInterval)
	case c.StatementTimeout <= 0:
		return fmt.Errorf("%w: StatementTimeout must be above 0, got %s", delivery.ErrConfig, c.StatementTimeout)
	case c.TransformTimeout < time.Millisecond || c.TransformTimeout > time.Minute:
		return fmt.Errorf("%w: TransformTimeout must lie between 1ms and 1m, got %s", delivery.ErrConfig, c.TransformTimeout)
	case slices.ContainsFunc(c.Transforms, func(t shape.Transform) bool { return t == nil }):
		return fmt.Errorf("%w: Transforms must not hold nil", delivery.ErrConfig)
	case c.CacheSize < 1:
		return fmt.Errorf("%w: CacheSize must be above 0, got %d", delivery.ErrConfig, c.CacheSize)
	}
	return c.Retry.Validate()
}

// Observer is told of the relay's steps when they are over, so that others can
// make traces of them. It is called by many goroutines at once, between the
// events: it must neither block nor keep or change what it is given.
type Observer interface {
	// Claimed tells of a claim that found something or failed: how many partitions
	// were asked, and how many messages they had.
	Claimed(began time.Time, partitions, messages int, err error)
	// Published tells of what was handed to the publisher together, with one
	// outcome for each message.
	Published(began time.Time, b delivery.Batch, outcomes []delivery.Outcome)
	// Marked tells of one mark of several partitions.
	Marked(began time.Time, results []delivery.Result, err error)
	// Taken tells of a partition that was taken, before its first claim.
	Taken(began time.Time, l *lease.Lease, err error)
}

// clock is the time when somebody observes; nobody pays for it otherwise.
func (r *Relay) clock() time.Time {
	if r.cfg.Observer == nil {
		return time.Time{}
	}
	return time.Now()
}

func shaperOf(cfg Config, returned func()) *shape.Shaper {
	return shape.New(shape.Config{
		Transforms: cfg.Transforms, Timeout: cfg.TransformTimeout, MaxPayload: cfg.MaxPayload, Grow: cfg.WindowBytes / 4, Logger: cfg.Logger,
	}, returned)
}
