package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// reader is one run of a Consumer.
type reader struct {
	*Consumer

	id    uuid.UUID
	count int // of lanes
	log   *slog.Logger
	slots chan struct{}
	end   context.CancelCauseFunc // ends the run

	silence silences // its membership's

	mu    sync.Mutex
	lanes map[int]*lane
	// created is the creation time of the stream that the pass reads.
	created time.Time
	// read is the position of the pass that is under way.
	read mark
	// furthest is the last position that a lane got before this pass began.
	furthest mark
	// ahead is the size of the lanes' unsettled messages; room is signalled when it falls.
	ahead int
	room  chan struct{}
	// endPass ends the pass, so that another begins; nil between two.
	endPass context.CancelFunc
	// fresh is signalled when a pass is wanted.
	fresh chan struct{}

	background sync.WaitGroup
}

func newReader(ctx context.Context, c *Consumer) (*reader, error) {
	state, err := c.prepare(ctx, mark{}, time.Time{})
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	own := *c
	own.cfg.Lanes = state.lanes // also where the database forgets their number
	return &reader{
		Consumer: &own, id: id, count: state.lanes,
		log:   c.box.cfg.Logger.With("consumer", c.box.cfg.Name, "reader", id),
		slots: make(chan struct{}, c.cfg.Workers),
		lanes: map[int]*lane{}, fresh: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}, nil
}

// run reads until the context ends.
func (r *reader) run(ctx context.Context) error {
	// Transactions in flight outlive the context by DrainTimeout.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end = end
	var loops sync.WaitGroup
	loops.Go(func() { r.pump(ctx) })
	loops.Go(func() { r.member(ctx, work) })
	loops.Go(func() { r.retries(ctx) })
	loops.Go(func() { r.housekeeping(ctx) })
	loops.Go(func() { end(closed.Connection(ctx, r.js.Conn())) })
	<-ctx.Done()
	deadline := time.AfterFunc(r.cfg.DrainTimeout, cut)
	defer deadline.Stop()
	loops.Wait()
	r.mu.Lock()
	for _, l := range r.lanes {
		r.releaseLocked(work, l)
	}
	r.mu.Unlock()
	r.background.Wait()
	if err := atLast(ctx, func(ctx context.Context) error { return r.signOff(ctx, r.id) }); err != nil {
		r.log.WarnContext(ctx, "reader could not sign off", "error", err)
	}
	return closed.Cause(ctx)
}

// retries runs due messages, until the context ends.
func (r *reader) retries(ctx context.Context) {
	r.every(ctx, r.cfg.Interval, func() {
		if _, err := r.box.RetryDue(ctx, retriesAtOnce, r.handle); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "retries failed", "error", err)
		}
	})
}

const (
	retriesAtOnce  = 1000
	housekeepEvery = 15 * time.Second
	purgeEvery     = 5 * time.Minute
)

func (r *reader) housekeeping(ctx context.Context) {
	var purged time.Time
	r.every(ctx, housekeepEvery, func() {
		if err := r.box.count(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "parked messages could not be counted", "error", err)
		}
		r.measureLag(ctx)
		if time.Since(purged) > purgeEvery {
			purged = time.Now()
			_, err := r.box.Purge(ctx)
			err = errors.Join(err, r.signOff(ctx, uuid.Nil)) // readers that died did not sign off
			if err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "purge failed", "error", err)
			}
		}
	})
}

func (r *reader) measureLag(ctx context.Context) {
	r.mu.Lock()
	read := r.read
	r.mu.Unlock()
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return // it is away
	}
	info := stream.CachedInfo()
	if keeps := info.Config.Retention; keeps != jetstream.LimitsPolicy { // the pass goes on: without a consumer nothing would be stored
		r.log.ErrorContext(ctx, "the stream deletes what was read, also what others need: its retention must be limits", "stream", r.cfg.Stream, "error", fmt.Errorf("%w: retention %s", ErrStream, keeps))
	}
	last := info.State.LastSeq
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.created.IsZero() && !r.created.Equal(info.Created) || last < read.sequence {
		r.passLocked() // it was made anew, or has lost messages
	}
	slowest := last
	for _, l := range r.lanes {
		slowest = min(slowest, l.positionLocked(r.read).sequence)
	}
	r.box.metrics.lag.Set(float64(last - slowest))
	r.box.metrics.reads.Set(float64(r.read.sequence))
}

// every calls do at once and then at this interval, until the context ends.
func (r *reader) every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// silences watches readers and lanes that end later than they can, since the database's clock has stepped back: this process's clock ends them.
type silences struct {
	readers pg.Watch[uuid.UUID, time.Time]
	lanes   pg.Watch[int, unrenewed]
	warned  bool
}

type unrenewed struct {
	epoch int64
	until time.Time
}

// living returns the readers of the consumer that give signs of life, in the order of their ids.
func (r *reader) living(ctx context.Context) ([]uuid.UUID, error) {
	round := r.silence.readers.Begin()
	rows, err := r.box.sql.Readers.Rows(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "steady": pg.Steady})
	if err != nil {
		return nil, fmt.Errorf("list readers: %w", err)
	}
	var readers []uuid.UUID
	var id uuid.UUID
	var until time.Time
	var lasts *time.Duration
	behind := false
	if _, err := pgx.ForEachRow(rows, []any{&id, &until, &lasts}, func() error {
		behind = behind || lasts != nil
		if lasts == nil || round.Same(id, until) < *lasts {
			readers = append(readers, id)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list readers: %w", err)
	}
	round.End()
	if behind && !r.silence.warned {
		r.log.WarnContext(ctx, "the database's clock has stepped back: readers that live longer than they can are watched, and so are their lanes")
	}
	r.silence.warned = behind
	if !behind {
		return readers, nil
	}
	_, err = r.watchLanes(ctx) // from now on: their lanes are free when they are gone
	return readers, err
}

// silent lists the lanes whose leases are over although they end later, in columns.
func (r *reader) silent(ctx context.Context) (numbers []int, epochs []int64, until []time.Time, err error) {
	lanes, err := r.watchLanes(ctx)
	numbers, epochs, until = []int{}, []int64{}, []time.Time{}
	for n, lane := range lanes {
		numbers, epochs, until = append(numbers, n), append(epochs, lane.epoch), append(until, lane.until)
	}
	return numbers, epochs, until, err
}

// watchLanes watches the leases that end later than they can, and returns those that are over.
func (r *reader) watchLanes(ctx context.Context) (map[int]unrenewed, error) {
	round := r.silence.lanes.Begin()
	rows, err := r.box.sql.Ahead.Rows(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "steady": pg.Steady})
	if err != nil {
		return nil, fmt.Errorf("watch lanes: %w", err)
	}
	over := map[int]unrenewed{}
	var number int
	var lane unrenewed
	var lasts time.Duration
	if _, err := pgx.ForEachRow(rows, []any{&number, &lane.epoch, &lane.until, &lasts}, func() error {
		if round.Same(number, lane) >= lasts {
			over[number] = lane
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("watch lanes: %w", err)
	}
	round.End()
	return over, nil
}
