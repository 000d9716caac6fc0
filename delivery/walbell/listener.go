package walbell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

const (
	// unasked is the number of Intervals between two looks at an outbox that does not ask for the bell.
	unasked = 15
	// longestWait bounds the wait after failures.
	longestWait = time.Minute
	// longestLook bounds a look at the database; nothing is heard meanwhile.
	longestLook = 5 * time.Second
	// leastBetween is the time between two rings.
	leastBetween = time.Millisecond
	// echoAfter delays the repetition of the last ring: its transaction is visible then, where no standby is waited for.
	echoAfter = 10 * time.Millisecond
)

// Listener rings for commits while it has the slot.
type Listener struct {
	cfg     Config
	pool    *pgxpool.Pool
	sql     statements
	rung    chan struct{} // holds one entry while a ring is due
	held    prometheus.Gauge
	told    string // the failure that was logged last
	refused int    // attempts in a row that came to nothing

	mu      sync.Mutex
	waiting rings // the ring that is due
}

// New returns a listener; Run starts it. It looks at the database through the pool, and opens one more connection to the
// same place while it has the slot.
func New(cfg Config, pool *pgxpool.Pool) (*Listener, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Listener{cfg: cfg, pool: pool, rung: make(chan struct{}, 1), held: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outbox_log_bell_held", Help: "1 while this worker rings for commits that it hears from PostgreSQL's log, else 0.",
	})}
	var err error
	if l.sql, err = newStatements(cfg.Schema); err != nil {
		return nil, err
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(l.held); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return l, nil
}

// Run rings until the context ends; then it returns nil. It never fails: nothing depends on it.
func (l *Listener) Run(ctx context.Context) error {
	var ringing sync.WaitGroup
	ringing.Go(func() { l.ringing(ctx) })
	defer ringing.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(l.turn(ctx))
		}
	}
}

// turn has the slot for as long as it can, if it is free, and returns the next wait.
func (l *Listener) turn(ctx context.Context) time.Duration {
	s, err := l.look(ctx)
	switch {
	case err != nil: // the database is away, of which others speak
		return l.cfg.Interval
	case !s.asked:
		l.refused, l.told = 0, ""
		return unasked * l.cfg.Interval
	case s.holder != 0:
		l.refused = 0
		return l.cfg.Interval
	}
	if err = s.unfit(); err == nil {
		err = l.hold(ctx, s)
	}
	switch {
	case ctx.Err() != nil, pg.Refused(err, slotTaken):
		return l.cfg.Interval
	case err.Error() != l.told:
		l.told = err.Error()
		l.cfg.Logger.Warn("the log does not ring for commits: events of producers that do not ring wait for polls", "error", err)
	}
	l.refused++
	return min(l.cfg.Interval<<min(l.refused-1, 10), longestWait)
}

func (l *Listener) look(ctx context.Context) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	return look(ctx, l.pool, l.sql, l.cfg.Schema)
}

// hold rings while the session lasts, and returns why it ended.
func (l *Listener) hold(ctx context.Context, s sight) error {
	heard, err := open(ctx, l.pool, s.slot, publication(l.cfg.Schema), l.due)
	if err != nil {
		return err
	}
	defer end(ctx, heard.conn)
	l.held.Set(1)
	defer l.held.Set(0)
	l.refused, l.told = 0, ""
	l.cfg.Logger.Info("the log rings for commits")
	l.due(rings{every: true}) // for commits while nobody listened
	for {
		if err := heard.hear(ctx, l.cfg.Interval); err != nil {
			return err
		}
		// Confirmations count for synchronous replication, so the setting is read before.
		switch s, err := l.look(ctx); {
		case err != nil:
			continue
		case !s.asked:
			return errNotAsked
		default:
			if err := s.unfit(); err != nil {
				return err
			}
		}
		if err := heard.confirm(ctx, true); err != nil {
			return err
		}
	}
}

var errNotAsked = errors.New("the publication is gone")

// due asks for a ring.
func (l *Listener) due(r rings) {
	if r.none() {
		return
	}
	l.mu.Lock()
	l.waiting.join(r)
	l.mu.Unlock()
	select {
	case l.rung <- struct{}{}:
	default:
	}
}

// ringing rings when a ring is due, not too often, and repeats all of them once.
func (l *Listener) ringing(ctx context.Context) {
	echo, pause := time.NewTimer(0), time.NewTimer(0)
	defer echo.Stop()
	defer pause.Stop()
	echo.Stop()
	var again rings
	for {
		select {
		case <-ctx.Done():
			return
		case <-echo.C:
			l.cfg.Ring(again.named()...)
			again = rings{}
		case <-l.rung:
			l.mu.Lock()
			now := l.waiting
			l.waiting = rings{}
			l.mu.Unlock()
			l.cfg.Ring(now.named()...)
			again.join(now)
			echo.Reset(echoAfter)
			pause.Reset(leastBetween)
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
		}
	}
}

// rings are for some partitions or for every one; the zero value is for none.
type rings struct {
	every      bool
	partitions map[partition.ID]bool
}

func (r rings) none() bool { return !r.every && len(r.partitions) == 0 }

func (r *rings) add(id partition.ID) {
	if r.partitions == nil {
		r.partitions = map[partition.ID]bool{}
	}
	r.partitions[id] = true
}

func (r *rings) join(other rings) {
	r.every = r.every || other.every
	for id := range other.partitions {
		r.add(id)
	}
}

// named returns the partitions; none: every one.
func (r rings) named() []partition.ID {
	if r.every {
		return nil
	}
	return slices.Collect(maps.Keys(r.partitions))
}
