package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/lease"
)

// Config has the settings of an Engine.
type Config struct {
	// Crew runs the workers. Leases are those of their database. Both are required.
	Crew   *Crew
	Leases *lease.Store
	// Judge configures the checker. Its Ledger is required; its Latency is the engine's own.
	Judge ledger.Config
	// Mishaps strike by turns, at least one.
	Mishaps []Mishap
	// Seed decides their order and their victims.
	Seed uint64
	// Duration bounds the time in which mishaps begin; each strikes once at least, however long that takes.
	Duration time.Duration
	// Quiet is the time between two mishaps, at least. Defaults to 3 s.
	Quiet time.Duration
	// Behind bounds an event's wait for its reception while delivery counts as caught up. Defaults to 250 ms.
	Behind time.Duration
	// Patience bounds a mishap, the cluster's recovery and the wait for the end. Defaults to 30 s.
	Patience time.Duration
}

func (c Config) withDefaults() Config {
	for field, otherwise := range map[*time.Duration]time.Duration{
		&c.Quiet: 3 * time.Second, &c.Behind: 250 * time.Millisecond, &c.Patience: 30 * time.Second,
	} {
		if *field == 0 {
			*field = otherwise
		}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Crew == nil || c.Leases == nil || c.Judge.Ledger == nil:
		return fmt.Errorf("%w: Crew, Leases and Judge.Ledger are required", ErrConfig)
	case len(c.Mishaps) == 0:
		return fmt.Errorf("%w: Mishaps are missing", ErrConfig)
	case c.Duration < 0 || c.Quiet < 0 || c.Behind < 0 || c.Patience < 0:
		return fmt.Errorf("%w: times must not be negative", ErrConfig)
	}
	return nil
}

// Engine breaks a cluster and watches it recover. Its methods may be called from any goroutine, Run once.
type Engine struct {
	config  Config
	checker *ledger.Checker
	meter   meter

	mu        sync.Mutex
	started   time.Time
	incidents []Incident
	look      Look
	phase     Phase
}

// New checks the configuration; nothing is broken yet. Errors wrap ErrConfig or ledger.ErrConfig.
func New(config Config) (*Engine, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	e := &Engine{config: config, started: time.Now(), phase: Gathering}
	config.Judge.Latency = e.meter.add
	var err error
	e.checker, err = ledger.NewChecker(config.Judge)
	return e, err
}

// Receive takes every message of the stream, in order, and returns the faults that it shows.
func (e *Engine) Receive(m ledger.Message) []ledger.Fault { return e.checker.Receive(m) }

// Run starts the load, strikes by turns, ends the load, and waits for committed events. The load runs until its context ends; its error ends
// the run. When ctx ends no further mishap begins, and committed events are still waited for. The crew goes on running.
func (e *Engine) Run(ctx context.Context, load func(context.Context) error) Verdict {
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	e.enter(Gathering)
	e.mu.Lock()
	e.started = time.Now()
	e.mu.Unlock()
	var loading sync.WaitGroup
	loading.Go(func() {
		if err := load(working); err != nil {
			end(fmt.Errorf("the load: %w", err))
		}
	})
	failure := e.strikeByTurns(working)
	if ctx.Err() != nil {
		failure = nil // its cause is known
	}
	end(nil)
	loading.Wait()
	e.meter.end()
	e.enter(Draining)
	e.config.Judge.Ledger.Finish()
	err := e.until(context.WithoutCancel(ctx), "everything is received", func(Look) error {
		select {
		case <-e.checker.Drained():
			return nil
		default:
			return errors.New("events are missing")
		}
	})
	if failure == nil {
		failure = err
	}
	e.enter(Over)
	return Verdict{State: e.State(), Report: e.checker.Report(), Failure: failure}
}

func (e *Engine) strikeByTurns(ctx context.Context) error {
	turns := NewTurns(e.config.Seed, len(e.config.Mishaps))
	if err := e.until(ctx, "the cluster is whole", e.whole); err != nil {
		return err
	}
	for n := 0; n < len(e.config.Mishaps) || time.Since(e.started) < e.config.Duration; n++ {
		if err := e.rest(ctx); err != nil {
			return err
		}
		next, random := turns.Next()
		if err := e.strike(ctx, e.config.Mishaps[next], random); err != nil {
			return err
		}
	}
	return e.rest(ctx)
}

// rest lets the cluster run for a while with nothing broken.
func (e *Engine) rest(ctx context.Context) error {
	e.enter(Steady)
	e.meter.begin()
	defer e.meter.end()
	over := time.Now().Add(e.config.Quiet)
	return e.until(ctx, "a time without mishaps is over", func(look Look) error {
		if left := time.Until(over); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return e.whole(look)
	})
}

// strike makes one mishap happen, waits until the cluster has coped with it, and mends it.
func (e *Engine) strike(ctx context.Context, m Mishap, random *rand.Rand) error {
	e.enter(Struggling)
	began := time.Now()
	index := e.note(Incident{At: began.Sub(e.started), Kind: m.Kind, Text: m.Kind})
	struck, err := m.Strike(ctx, random)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Kind, err)
	}
	e.change(index, func(i *Incident) { i.Text, i.Then = struck.Text, struck.Then })
	happened := time.Now()
	err = e.until(ctx, "the cluster has coped with it: "+struck.Text, func(look Look) error {
		if look.Err != nil {
			return fmt.Errorf("the leases cannot be read: %w", look.Err)
		}
		if struck.Over != nil {
			if !struck.Over(look) {
				return errors.New("not all partitions have another owner")
			}
			e.change(index, func(i *Incident) { i.Moved = cmp.Or(i.Moved, time.Since(happened)) })
		}
		if !e.meter.hasSince(happened) {
			return errors.New("nothing that was committed since was received")
		}
		return e.caughtUp(look)
	})
	if err == nil {
		e.change(index, func(i *Incident) { i.Took = time.Since(happened) })
	}
	e.enter(Mending)
	if struck.Mend != nil { // also after it was not over: nothing stays frozen
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.Patience)
		defer cancel()
		err = errors.Join(err, struck.Mend(patient))
	}
	if err != nil {
		return err
	}
	return e.until(ctx, "the cluster is whole again: "+struck.Text, e.whole)
}

func (e *Engine) caughtUp(look Look) error {
	if look.Waiting > e.config.Behind {
		return fmt.Errorf("an event waits for %s", look.Waiting.Round(time.Millisecond))
	}
	return nil
}

func (e *Engine) whole(look Look) error {
	if err := look.whole(e.config.Crew.Members()); err != nil {
		return err
	}
	return e.caughtUp(look)
}

// until polls the cluster until it is as wanted; holds returns the lack. It ends early when a worker ended by itself.
func (e *Engine) until(ctx context.Context, what string, holds func(Look) error) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	late := time.NewTimer(e.config.Patience + e.config.Quiet)
	defer late.Stop()
	for {
		look := lookAt(ctx, e.config.Leases)
		if at := e.checker.Oldest(); !at.IsZero() {
			look.Waiting = time.Since(at)
		}
		e.mu.Lock()
		e.look = look
		e.mu.Unlock()
		missing := holds(look)
		if missing == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case err := <-e.config.Crew.ended:
			return err
		case <-late.C:
			return fmt.Errorf("waited in vain until %s: %w", what, missing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
