package resize

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
)

// ErrRunning means that a Runner is at a resize already.
var ErrRunning = fmt.Errorf("%w, from here", lease.ErrFrozen)

// ErrStopped means that the process of a resize was stopped amid it.
var ErrStopped = errors.New("the process that changed the partitions was stopped")

// Runner resizes for callers that do not wait for the end, one resize at a time.
type Runner struct {
	db     pg.DB
	config Config
	open   func(context.Context) (*pgxpool.Pool, error)
	asked  chan *job

	mu   sync.Mutex
	last *job
}

// NewRunner returns one that reads through db, and resizes by c through a pool of its own, opened for that; it sets Pool and Progress itself.
func NewRunner(c Config, db pg.DB, open func(context.Context) (*pgxpool.Pool, error)) *Runner {
	return &Runner{db: db, config: c, open: open, asked: make(chan *job, 1)}
}

// Asked is an accepted request for a resize.
type Asked struct {
	// From is 0 while it is unknown.
	From, To, Moved int
	Actor, Reason   string
	StartedAt       time.Time
	// EndedAt is zero while it is under way; Err is its failure, or nil.
	EndedAt time.Time
	Err     error
}

// job is an Asked with signals of its beginning and end.
type job struct {
	Asked
	began, ended chan struct{}
	left         chan struct{} // the asker did not wait for it to begin
	before       *job          // that was the last one
}

// Serve runs the resizes asked for until the context ends; then it gives up the present one, and gives its partitions back.
func (r *Runner) Serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-r.asked:
			r.serve(ctx, j)
		}
	}
}

func (r *Runner) serve(ctx context.Context, j *job) {
	done, err := r.run(ctx, j)
	if err != nil && ctx.Err() != nil {
		err = ErrStopped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j.From, j.Moved, j.Err, j.EndedAt = done.From, done.Moved, err, time.Now()
	switch {
	case err == nil:
	case closed(j.began):
		r.config.Logger.WarnContext(ctx, "a resize failed", "to", j.To, "error", err)
	default: // the asker is told, unless nobody is there
		if closed(j.left) {
			r.config.Logger.WarnContext(ctx, "a resize was given up: who asked for it has gone", "to", j.To, "error", err)
		}
		r.last = j.before
	}
	j.before = nil
	close(j.ended)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *Runner) run(ctx context.Context, j *job) (done Resized, err error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	go func() {
		select {
		case <-j.left:
			giveUp()
		case <-j.began:
		case <-ctx.Done():
		}
	}()
	c := r.config
	if c.Pool, err = r.open(ctx); err != nil {
		return Resized{From: j.From, To: j.To}, err
	}
	defer c.Pool.Close()
	c.Progress = func(string) {
		if !closed(j.began) {
			close(j.began)
		}
	}
	return Run(ctx, c, Wanted{To: j.To, From: j.From, Actor: j.Actor, Reason: j.Reason})
}

// Start begins a resize, and returns when the workers were asked for their partitions, or with an earlier failure. A ctx that ends before
// gives it up; afterwards it goes on. wait returns its result. A resize under way is ErrRunning, lease.ErrFrozen elsewhere.
func (r *Runner) Start(ctx context.Context, o Wanted) (wait func(context.Context) (Resized, error), err error) {
	j := &job{
		Asked: Asked{From: o.From, To: o.To, Actor: o.Actor, Reason: o.Reason, StartedAt: time.Now()},
		began: make(chan struct{}), ended: make(chan struct{}), left: make(chan struct{}),
	}
	r.mu.Lock()
	if r.last != nil && r.last.EndedAt.IsZero() {
		r.mu.Unlock()
		return nil, ErrRunning
	}
	j.before, r.last = r.last, j
	r.mu.Unlock()
	r.asked <- j // there is room, as the one before has ended
	wait = func(ctx context.Context) (Resized, error) {
		select {
		case <-j.ended:
			return Resized{From: j.From, To: j.To, Moved: j.Moved}, j.Err
		case <-ctx.Done():
			return Resized{}, ctx.Err()
		}
	}
	select {
	case <-j.began:
		return wait, nil
	case <-j.ended:
		return wait, j.Err
	case <-ctx.Done():
		close(j.left)
		return wait, ctx.Err()
	}
}

// Plan previews a resize, or returns its refusal.
func (r *Runner) Plan(ctx context.Context, o Wanted) (Resized, error) {
	return Plan(ctx, r.db, r.config.Schema, r.config.Events, o)
}

// Look returns a resize's progress from the tables, whoever runs it, and the last one asked for here; nil: none was.
func (r *Runner) Look(ctx context.Context) (lease.Census, *Asked, error) {
	leases, err := lease.NewStore(ctx, r.db, r.config.Schema)
	if err != nil {
		return lease.Census{}, nil, err
	}
	last := r.lastAsked() // first: a resize that it calls ended is over in the database
	census, err := leases.Census(ctx)
	if err != nil {
		return census, nil, err
	}
	return census, last, nil
}

func (r *Runner) lastAsked() *Asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return nil
	}
	last := r.last.Asked
	return &last
}

// ProgressBody is Look's result as the API shows it.
type ProgressBody struct {
	Partitions int        `json:"partitions"`
	Resizing   bool       `json:"resizing"`
	Returned   int        `json:"returned"`
	ResizedAt  *time.Time `json:"resized_at"`
	Last       *AskedBody `json:"last"`
}

// AskedBody is an Asked as the API shows it.
type AskedBody struct {
	// State is "running", "done" or "failed".
	State     string     `json:"state"`
	From      *int       `json:"from"`
	To        int        `json:"to"`
	Moved     int        `json:"moved"`
	Actor     string     `json:"actor"`
	Reason    string     `json:"reason"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Error     *string    `json:"error"`
}

// State is "running", "done" or "failed".
func (j Asked) State() string {
	switch {
	case j.EndedAt.IsZero():
		return "running"
	case j.Err != nil:
		return "failed"
	}
	return "done"
}

// BodyOf puts the last one's failure in the words of complain.
func BodyOf(census lease.Census, last *Asked, complain func(error) string) ProgressBody {
	b := ProgressBody{Partitions: census.Partitions, Resizing: census.Frozen, Returned: census.Returned, ResizedAt: pg.UTC(census.ResizedAt)}
	if last == nil {
		return b
	}
	b.Last = &AskedBody{
		State: last.State(), From: pg.OrNull(last.From), To: last.To, Moved: last.Moved, Actor: last.Actor, Reason: last.Reason,
		StartedAt: last.StartedAt.UTC(), EndedAt: pg.UTC(pg.OrNull(last.EndedAt)),
	}
	if last.Err != nil {
		b.Last.Error = pg.OrNull(complain(last.Err))
	}
	return b
}
