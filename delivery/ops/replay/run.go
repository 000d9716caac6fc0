package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// RunConfig configures the run of a replay.
type RunConfig struct {
	// Rate bounds the events a second, at least 0.1; 0: no bound.
	Rate float64
	// BatchSize bounds the events of one step, 1 to 10,000. Defaults to 500.
	BatchSize int
	// MaxPending bounds the publishable rows in the outbox; above it a live replay waits. At least 1. Defaults to 5,000.
	MaxPending int
	// Actor runs it, for the audit. Defaults to its maker.
	Actor string
	// Publisher takes the messages of a shadow replay. Events reads them, and has the workers' transforms: messages are to be like
	// theirs.
	Publisher ShadowPublisher
	Events    *loop.EventReader
	// Progress is called after each step and while it waits. nil: nobody.
	Progress func(Job)
	// Counting gets the progress of a count that was interrupted when the replay was made. nil: nobody.
	Counting func(at, end int64)

	served bool // by Store.Serve
}

// WithDefaults fills what was left zero.
func (c RunConfig) WithDefaults() RunConfig {
	c.BatchSize = cmp.Or(c.BatchSize, 500)
	c.MaxPending = cmp.Or(c.MaxPending, 5000)
	return c
}

// Validate refuses values outside their ranges, by name.
func (c RunConfig) Validate() error {
	switch {
	case c.Rate != 0 && !possible(c.Rate):
		return refuseRate(c.Rate)
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return maintenance.Refuse("batch-size", "must lie between 1 and 10000, got %d", c.BatchSize)
	case c.MaxPending < 1:
		return maintenance.Refuse("max-pending", "must be at least 1, got %d", c.MaxPending)
	}
	return maintenance.CheckActor(c.Actor)
}

// The range of rates: slower, a run would seem to be dead between two events.
const (
	slowest = 0.1
	fastest = 1e9
)

func possible(rate float64) bool { return rate >= slowest && rate <= fastest } // NaN does not

func refuseRate(rate float64) error {
	return maintenance.Refuse("rate", "must be 0 or lie between %g and %g, got %g", slowest, fastest, rate)
}

type run struct {
	*Store
	cfg    RunConfig
	id     int64
	runner uuid.UUID
	job    Job
	pace   pacer
	shadow *shadowing
	beaten time.Time // when the row was touched last
	looked pending
}

type step struct {
	events   int64 // for the pace
	finished bool
	// waiting explains an idle step.
	waiting string
}

// Run works a replay off until it is done or the context ends; then the replay is laid aside, and the error is the context's. A replay that
// was planned, laid aside or killed goes on where it was.
func (s *Store) Run(ctx context.Context, id int64, cfg RunConfig) (Job, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return Job{}, err
	}
	r := &run{Store: s, cfg: cfg, id: id, runner: uuid.New(), pace: pacer{rate: cfg.Rate}}
	err := r.work(ctx)
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrEnded) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrLiveRunning) {
		return r.job, err
	}
	if err != nil {
		// Laid aside, as far as the database can be reached; if not it can be resumed all the same.
		apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = r.end(apart, Paused, err)
		if j, read := s.Get(apart, id); read == nil {
			r.job = j
		}
		return r.job, err
	}
	r.job, err = s.Get(ctx, id)
	return r.job, err
}

func (r *run) work(ctx context.Context) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	var err error
	if r.job, err = r.counted(ctx, r.id, r.actor(r.job), r.cfg.Counting); err != nil {
		return err
	}
	if r.job.Destination == Shadow {
		if r.cfg.Publisher == nil || r.cfg.Events == nil {
			return maintenance.Refuse("publisher", "a shadow replay needs one, and something that reads events")
		}
		r.shadow = &shadowing{}
	}
	for {
		if err := r.pace.wait(ctx); err != nil {
			return err
		}
		done, err := r.step(ctx)
		if err != nil {
			return err
		}
		if r.job, err = r.Get(ctx, r.id); err != nil {
			return err
		}
		if r.cfg.Progress != nil {
			r.cfg.Progress(r.job)
		}
		if done.finished {
			return r.end(ctx, Done, nil)
		}
		r.pace.add(done.events)
		if done.waiting != "" {
			if err := r.idle(ctx, done.waiting); err != nil {
				return err
			}
		}
	}
}

// take makes this process the replay's runner. A replay that was laid aside gets a new generation when higher ones were given out
// meanwhile.
func (r *run) take(ctx context.Context) error {
	silent, err := r.untouched(ctx)
	if err != nil {
		return err
	}
	err = r.outbox.Write(ctx, func(tx pgx.Tx) error {
		j, err := r.within(ctx, tx, r.id)
		switch {
		case err != nil:
			return err
		case j.Ended():
			return fmt.Errorf("%w: replay %d is %s", ErrEnded, j.ID, j.State)
		}
		r.job = j
		generation := j.Generation
		if j.State != Running && j.Destination == Live {
			next, err := r.generation(ctx, tx)
			if err != nil {
				return err
			}
			if next > generation+generationStep {
				generation = next
			}
		}
		tag, err := r.sql.Take.Exec(ctx, tx, pg.Args{
			"id": j.ID, "runner": r.runner, "generation": generation, "served": r.cfg.served, "dead": dead, "silent": silent,
		})
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrTaken
		}
		if err != nil {
			return err
		}
		j.Generation = generation
		return r.outbox.Record(ctx, tx, r.actor(j), "replay.run", j.target(), j.Reason, j.outcome())
	})
	if pg.Refused(err, uniqueViolation) {
		return liveRunning()
	}
	if err != nil {
		return fmt.Errorf("take the replay: %w", err)
	}
	return nil
}

func (r *run) actor(j Job) string { return cmp.Or(r.cfg.Actor, j.Actor) }

// generationStep lies between the generations of two replays.
const generationStep = 100

// step does the next piece. A lock or deadlock of another session repeats it.
func (r *run) step(ctx context.Context) (step, error) {
	do := r.liveStep
	switch {
	case r.job.Kind == Retry:
		do = r.retryStep
	case r.shadow != nil:
		do = r.shadowStep
	}
	if r.shadow == nil {
		if text, err := r.crowded(ctx); err != nil || text != "" {
			return step{waiting: text}, err
		}
	}
	done, err := do(ctx)
	if errors.Is(err, errResized) {
		return step{waiting: "the partitions are being resized"}, nil
	}
	if maintenance.Contended(err) {
		return step{waiting: "a partition's row is locked by another session"}, nil
	}
	return done, err
}

// end leaves the replay in that state. A served one keeps the reason: nobody else tells.
func (r *run) end(ctx context.Context, state State, why error) error {
	text := ""
	if r.cfg.served && why != nil && !errors.Is(why, context.Canceled) {
		text = delivery.Reason(why)
	}
	return r.outbox.Write(ctx, func(tx pgx.Tx) error {
		tag, err := r.sql.Finish.Exec(ctx, tx, pg.Args{"id": r.id, "runner": r.runner, "state": state, "error": text})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrTaken
		}
		j, err := r.within(ctx, tx, r.id)
		if err != nil {
			return err
		}
		action := "replay.pause"
		if state == Done {
			action = "replay.done"
			if _, err := r.sql.Forget.Exec(ctx, tx, pg.Args{"id": r.id}); err != nil {
				return err
			}
		}
		return r.outbox.Record(ctx, tx, r.actor(j), action, j.target(), j.Reason, j.outcome())
	})
}

type moved struct {
	position, replayed, gone, failed, stream int64
	lastError, waiting                       string
}

// advance moves the replay's row within tx; ErrTaken when it is not ours.
func (r *run) advance(ctx context.Context, tx pgx.Tx, m moved) error {
	tag, err := r.sql.Advance.Exec(ctx, tx, pg.Args{
		"id": r.id, "runner": r.runner, "position": m.position, "replayed": m.replayed, "gone": m.gone, "failed": m.failed,
		"stream": m.stream, "error": m.lastError, "waiting": m.waiting,
	})
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrTaken
	}
	r.beaten = time.Now()
	return err
}

// hold locks the replay's row for a step and returns its position.
func (r *run) hold(ctx context.Context, tx pgx.Tx) (position int64, generation int, err error) {
	err = r.sql.Hold.Row(ctx, tx, pg.Args{"id": r.id, "runner": r.runner}).Scan(&position, &generation)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrTaken
	}
	return position, generation, err
}

// idle waits a little, and notes the reason now and then.
func (r *run) idle(ctx context.Context, waiting string) error {
	if err := r.touch(ctx, waiting); err != nil {
		return err
	}
	return pause(ctx, waitLook)
}

// touch notes now and then that the run lives, and its wait.
func (r *run) touch(ctx context.Context, waiting string) error {
	if time.Since(r.beaten) <= beat && waiting == r.job.WaitingFor {
		return nil
	}
	return r.outbox.Write(ctx, func(tx pgx.Tx) error {
		return r.advance(ctx, tx, moved{position: r.job.Position, waiting: waiting})
	})
}

// waitLook lies between two looks of a replay that waits.
const waitLook = 100 * time.Millisecond
