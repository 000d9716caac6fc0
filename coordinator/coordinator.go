package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Deliver works on the leases of the set until the context ends. When it returns
// before that, the coordinator gives everything back and stops with its error.
type Deliver func(ctx context.Context, held *lease.Set) error

// Bell tells the other workers that leases or members changed, and hears them. Losing a ring costs at most one Interval.
type Bell interface {
	Ring()
	Rung() <-chan struct{}
}

// State is the coordinator's last plan and its counts.
type State struct {
	// Members are the workers that took part in the last plan.
	Members int
	// Desired and Owned are this worker's partitions.
	Desired []partition.ID
	Owned   []partition.ID
	// Frozen reports whether the outbox is frozen.
	Frozen bool
	// Draining reports whether an operator asked the worker to give everything back.
	Draining bool
	// Acquired, Released and Lost count leases since the start.
	Acquired, Released, Lost int64
}

// Coordinator keeps one worker's leases in line with the plan.
type Coordinator struct {
	cfg     Config
	beater  *heartbeat.Beater
	keeper  *lease.Keeper
	bell    Bell
	deliver Deliver
	log     *slog.Logger

	state    atomic.Pointer[State]
	acquired atomic.Int64
	released atomic.Int64
	lost     atomic.Int64
	handing  sync.WaitGroup
	planned  chan struct{} // closed by the first reconciliation
	seen     look          // the loop's
	clock    clock
	failing  string // the loop's: the last failure, until there is none
}

// New returns a coordinator; nothing runs yet.
func New(cfg Config, beater *heartbeat.Beater, keeper *lease.Keeper, bell Bell, deliver Deliver) (*Coordinator, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{
		cfg: cfg, beater: beater, keeper: keeper, bell: bell, deliver: deliver,
		log: cfg.Logger.With("worker", beater.ID().String()), planned: make(chan struct{}),
	}
	c.state.Store(&State{})
	c.register(cfg.Registerer)
	return c, nil
}

// State returns the last plan and counts.
func (c *Coordinator) State() State {
	s := *c.state.Load()
	for _, l := range c.keeper.Set().Held() {
		s.Owned = append(s.Owned, l.Partition)
	}
	s.Acquired, s.Released, s.Lost = c.acquired.Load(), c.released.Load(), c.lost.Load()
	return s
}

// Members is the number of workers that took part in the last plan.
func (c *Coordinator) Members() int { return c.state.Load().Members }

// Planned is closed when the first plan has been carried out.
func (c *Coordinator) Planned() <-chan struct{} { return c.planned }

// Run joins the cluster and keeps the plan until the context ends; then it
// drains, releases and leaves. It returns nil after an orderly stop.
func (c *Coordinator) Run(ctx context.Context) error {
	if err := c.beater.Register(ctx); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	// Work outlives ctx: it ends when its leases have been given back.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var running sync.WaitGroup
	delivered := make(chan error, 1)
	running.Go(func() { delivered <- c.deliver(work, c.keeper.Set()) })
	running.Go(func() { _ = c.beater.Run(work) })
	running.Go(func() { _ = c.keeper.Run(work) })
	c.bell.Ring()

	err, ended := c.loop(ctx, delivered)
	c.stop(work)
	stopWork()
	running.Wait()
	if !ended {
		err = <-delivered
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("delivery: %w", err)
	}
	return nil
}

// loop reconciles until the context or the delivery function ends.
func (c *Coordinator) loop(ctx context.Context, delivered <-chan error) (err error, ended bool) { //nolint:revive // the error is delivery's, not the loop's
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	rung := true
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case err := <-delivered:
			return err, true
		case <-c.bell.Rung():
			// A ring moves the next reconciliation forward, not below Quiet.
			timer.Reset(max(0, c.cfg.Quiet-time.Since(last)))
			rung = true
			continue
		case <-timer.C:
		}
		last = time.Now()
		next, err := c.reconcile(ctx, rung)
		if ctx.Err() == nil {
			c.note(err)
		}
		if err == nil {
			rung = false
			c.markPlanned()
		}
		timer.Reset(next)
	}
}

// note logs a failed reconciliation once, and again when its error changes: reconciliations fail several times a second.
func (c *Coordinator) note(err error) {
	c.cfg.Board.Report(condition.Leases, err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == c.failing {
		return
	}
	if c.failing = text; err != nil {
		c.log.Warn("reconciliation failed", "error", err)
		return
	}
	c.log.Info("reconciliation succeeds again")
}

func (c *Coordinator) markPlanned() {
	select {
	case <-c.planned:
	default:
		close(c.planned)
	}
}

// stop gives all leases back in good order, within DrainTimeout and a bit.
func (c *Coordinator) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.cfg.DrainTimeout)
	defer cancel()
	held := c.keeper.Set().Held()
	for _, l := range held {
		l.Drain() // first of all: announcing it may have to wait for a connection
	}
	if err := c.beater.Drain(ctx); err != nil {
		c.log.Warn("could not announce draining", "error", err)
	}
	c.handOver(ctx, held)
	c.handing.Wait()
	if err := c.keeper.Disown(ctx); err != nil {
		c.log.Warn("could not make sure that no lease is left; it runs out by itself", "error", err)
	}
	if err := c.beater.Leave(ctx); err != nil {
		c.log.Warn("could not leave the cluster; the row goes stale instead", "error", err)
	}
	c.bell.Ring()
}

// handOver drains the leases and releases each as soon as nothing is inside,
// idle ones together in one statement, and rings for each group.
func (c *Coordinator) handOver(ctx context.Context, leases []*lease.Lease) {
	if len(leases) == 0 {
		return
	}
	start := time.Now()
	idle := make(chan *lease.Lease, len(leases))
	drain, cut := context.WithTimeout(ctx, c.cfg.DrainTimeout)
	defer cut()
	for _, l := range leases {
		drained := l.Drain()
		go func() {
			select {
			case <-drained:
			case <-drain.Done():
				c.log.Warn("work in flight did not end in time; it is left to the next owner",
					"partition", l.Partition, "drain_timeout", c.cfg.DrainTimeout)
			}
			idle <- l
		}()
	}
	var failed error
	for left := len(leases); left > 0; {
		group := []*lease.Lease{<-idle}
		for more := true; more && len(group) < left; {
			select {
			case l := <-idle:
				group = append(group, l)
			case <-time.After(c.cfg.Quiet / 10): // the others are not about to
				more = false
			}
		}
		left -= len(group)
		failed = cmp.Or(c.release(ctx, group), failed)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer(StepHandOver, start, len(leases), failed)
	}
	c.log.Info("handed over partitions", "partitions", len(leases), "took", time.Since(start))
}

// release frees drained leases and rings.
func (c *Coordinator) release(ctx context.Context, leases []*lease.Lease) error {
	freed, err := c.keeper.Release(ctx, leases)
	if err != nil {
		c.log.Warn("release failed; the leases are left to their TTL", "error", err, "partitions", len(leases))
		return err
	}
	c.released.Add(int64(freed))
	c.bell.Ring()
	return nil
}
