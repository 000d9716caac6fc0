package heartbeat

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/partition"
)

// Table stores the workers; a Store keeps it in PostgreSQL.
type Table interface {
	Beat(ctx context.Context, w Worker, ttl time.Duration) error
	Leave(ctx context.Context, w Worker) error
	Purge(ctx context.Context, after time.Duration) (int64, error)
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Beater keeps one worker's row alive.
type Beater struct {
	cfg   Config
	table Table
	log   *slog.Logger

	// told is full when the condition changed and no beat has said so.
	told chan struct{}
	// writing is full over a statement: no beat that is under way can put the row back after Leave deleted it.
	writing chan struct{}
	left    bool

	mu     sync.Mutex
	self   Worker
	failed int
}

// NewBeater names a new worker. A Store should stand on a connection of its own.
func NewBeater(table Table, cfg Config) (*Beater, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("name the worker: %w", err)
	}
	if cfg.Hostname == "" {
		if cfg.Hostname, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("name the worker's host: %w", err)
		}
	}
	cfg.PID = cmp.Or(cfg.PID, os.Getpid())
	told := make(chan struct{}, 1)
	if cfg.Board != nil {
		cfg.Board.OnChange(func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}
	self := Worker{ID: id, Hostname: cfg.Hostname, PID: cfg.PID, Version: cfg.Version, Shape: cfg.Shape, State: Active, StartedAt: time.Now()}
	return &Beater{
		cfg: cfg, table: table, self: self, told: told, writing: make(chan struct{}, 1), log: cfg.Logger.With("worker", id.String()),
	}, nil
}

// ID names the worker for its lifetime.
func (b *Beater) ID() partition.WorkerID { return b.self.ID }

// Self returns the worker as its next beat writes it.
func (b *Beater) Self() Worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	self := b.self
	self.Condition, self.Canary = b.cfg.Board.First(), b.cfg.Canary()
	return self
}

// Register writes the first beat. One in flight when the context ends gets another Interval: cut off, it would leave a row that
// nobody deletes, and the others would wait for its expiry.
func (b *Beater) Register(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	writing, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(b.cfg.Interval, cut) })()
	return b.beat(writing)
}

// Run beats until the context ends, and purges stale rows now and then. It
// does not leave: the coordinator does that when everything is released.
func (b *Beater) Run(ctx context.Context) error {
	timer := time.NewTimer(b.cfg.Interval)
	defer timer.Stop()
	var purged time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-b.told: // the others are to know at once
		}
		timer.Reset(b.tick(ctx))
		if time.Since(purged) > b.cfg.PurgeAfter/2 {
			purged = time.Now()
			purge, cancel := context.WithTimeout(ctx, b.cfg.Interval)
			n, err := b.table.Purge(purge, b.cfg.PurgeAfter)
			cancel()
			if err != nil {
				b.log.Warn("purge of stale workers failed", "error", err)
			} else if n > 0 {
				b.log.Info("purged stale workers", "workers", n)
			}
		}
	}
}

// tick beats once and returns the wait until the next beat.
func (b *Beater) tick(ctx context.Context) time.Duration {
	beatCtx, cancel := context.WithTimeout(ctx, b.cfg.Interval)
	defer cancel()
	err := b.beat(beatCtx)
	if ctx.Err() == nil {
		b.cfg.Board.Report(condition.Heartbeat, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		if b.failed > 0 {
			b.log.Info("heartbeat recovered", "failed_beats", b.failed)
		}
		b.failed = 0
		return b.cfg.Interval
	}
	if ctx.Err() == nil {
		b.failed++
		b.log.Warn("heartbeat failed", "error", err, "failed_beats", b.failed)
	}
	return b.cfg.Interval / 4
}

func (b *Beater) enter(ctx context.Context) error {
	select {
	case b.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Beater) beat(ctx context.Context) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer func() { <-b.writing }()
	if b.left {
		return nil
	}
	return b.table.Beat(ctx, b.Self(), b.cfg.TTL)
}

// Drain tells the others, at once, to plan without this worker; later beats say the same.
func (b *Beater) Drain(ctx context.Context) error { return b.turn(ctx, Draining) }

// Undrain makes the worker a member again.
func (b *Beater) Undrain(ctx context.Context) error { return b.turn(ctx, Active) }

func (b *Beater) turn(ctx context.Context, state State) error {
	b.mu.Lock()
	b.self.State = state
	b.mu.Unlock()
	return b.beat(ctx)
}

// Draining reports whether Drain was called last.
func (b *Beater) Draining() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.self.State == Draining
}

// Leave deletes the worker's row; later beats write nothing.
func (b *Beater) Leave(ctx context.Context) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer func() { <-b.writing }()
	b.left = true
	return b.table.Leave(ctx, Worker{ID: b.ID()})
}

// Snapshot reads all workers.
func (b *Beater) Snapshot(ctx context.Context) (Snapshot, error) { return b.table.Snapshot(ctx) }
