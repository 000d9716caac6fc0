package projection

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// drainTime bounds a batch in flight after the context has ended.
const drainTime = 10 * time.Second

// Run prepares, looks for gaps and repairs them (Config.NoRepair), and then applies events until the context ends; it finishes batches in
// flight. Any number of processes may run it at once. It returns nil when the context ended, else an error: ErrMode in mode inline, an error
// of the start, or ErrClosed. Later outages are waited out.
func (p *Projection) Run(ctx context.Context) error {
	if p.cfg.Mode == Inline {
		return fmt.Errorf("%w: in mode inline producers apply, with ApplyTx; there is nothing to run", ErrMode)
	}
	for _, step := range []func(context.Context) error{p.Prepare, p.startUp} {
		switch err := step(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return cmp.Or(closed.Pool(err), err)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	running.Go(func() { end(p.sweep(ctx)) })
	if p.cfg.JetStream != nil {
		running.Go(func() { p.listen(ctx) })
		running.Go(func() { end(closed.Connection(ctx, p.cfg.JetStream.Conn())) })
	}
	end(p.dispatch(ctx))
	running.Wait()
	return closed.Cause(ctx)
}

// dispatch claims as many streams as there are free workers, so that no claimed stream waits for another. It returns nil when the context
// ended.
func (p *Projection) dispatch(ctx context.Context) error {
	free := make(chan struct{}, p.cfg.Workers)
	for range p.cfg.Workers {
		free <- struct{}{}
	}
	var working sync.WaitGroup
	draining, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, stop) })()
	defer working.Wait() // before the two above end the workers' means
	trouble := pause{}
	var looked time.Time
	for {
		select {
		case <-free:
		case <-ctx.Done():
			return nil
		}
		slots := 1 + len(free) // nobody else takes any
		for range slots - 1 {
			<-free
		}
		var err error
		if time.Since(looked) >= min(aheadInterval, p.cfg.LeaseTTL) {
			looked, err = time.Now(), p.advance(ctx)
		}
		var taken []claim
		if err == nil {
			taken, err = p.claims(ctx, slots)
		}
		for range slots - len(taken) {
			free <- struct{}{}
		}
		for _, c := range taken {
			working.Go(func() {
				err := p.work(draining, c)
				if err != nil && ctx.Err() == nil {
					p.log.WarnContext(ctx, "the database did not take a batch; it is tried again, no attempt is counted", "stream", c.stream, "error", err)
				}
				free <- struct{}{}
				p.ring()
			})
		}
		if dead := closed.Pool(err); dead != nil {
			return dead
		}
		wait := max(p.cfg.PollInterval, trouble.after(err))
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "nothing can be claimed", "error", err, "again_in", wait)
		}
		if len(taken) == slots {
			continue
		}
		if !p.idle(ctx, wait, err != nil) {
			return nil
		}
	}
}

// aheadInterval is the time between two looks for streams that wait for a clock which stepped back.
const aheadInterval = time.Second

// aheadStreams bounds the streams that one such look sees.
const aheadStreams = 10_000

// advance makes streams due that were planned later than now. The leases among them are first watched for their length, by this process's own
// clock.
func (p *Projection) advance(ctx context.Context) error {
	var streams []string
	var epochs []int64
	round := p.watch.Begin()
	rows, err := p.sql.Ahead.Rows(ctx, p.cfg.Pool, pg.Args{"steady": pg.Steady, "limit": aheadStreams})
	if err != nil {
		return fmt.Errorf("look for streams that wait for a clock: %w", err)
	}
	var stream string
	var epoch int64
	var until *time.Time
	var ttl time.Duration
	_, err = pgx.ForEachRow(rows, []any{&stream, &epoch, &until, &ttl}, func() error {
		if until == nil || round.Same(stream, epoch) >= ttl {
			streams, epochs = append(streams, stream), append(epochs, epoch)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for streams that wait for a clock: %w", err)
	}
	round.End()
	if len(streams) == 0 {
		return nil
	}
	p.log.WarnContext(ctx, "the database's clock has stepped back: streams that were planned before are due", "streams", len(streams))
	if _, err := p.sql.Advance.Exec(ctx, p.cfg.Pool, pg.Args{"streams": streams, "epochs": epochs}); err != nil {
		return fmt.Errorf("have streams not wait for a clock: %w", err)
	}
	return nil
}

// idle waits for news, or for the time; false when the context ended.
func (p *Projection) idle(ctx context.Context, wait time.Duration, deaf bool) bool {
	news := p.wake
	if deaf {
		news = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-news:
	case <-time.After(wait):
	}
	return true
}

// pause grows with each failure in a row, up to two seconds.
type pause struct{ length time.Duration }

func (w *pause) after(err error) time.Duration {
	if err == nil {
		w.length = 0
	} else {
		w.length = min(max(2*w.length, 50*time.Millisecond), 2*time.Second)
	}
	return w.length
}

// Announce stores that streams have these versions, and wakes the workers. It returns the streams that it stored; the others are being
// applied at this moment and want to be announced again a little later, for nothing waits.
func (p *Projection) Announce(ctx context.Context, versions map[string]int64) ([]string, error) {
	if len(versions) == 0 {
		return nil, nil
	}
	streams, numbers := make([]string, 0, len(versions)), make([]int64, 0, len(versions))
	for stream, version := range versions {
		streams, numbers = append(streams, stream), append(numbers, version)
	}
	done, err := pg.Collect(ctx, p.cfg.Pool, p.sql.Announce, pg.Args{"streams": streams, "versions": numbers}, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	p.ring()
	return done, nil
}
