package resize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

const (
	// leaseTTL outlasts the steps; Move compares the leases.
	leaseTTL = time.Minute
	// look lies between two looks for returned partitions.
	look = 200 * time.Millisecond
	// endPatience bounds giving back, which also happens when the context has ended.
	endPatience = 10 * time.Second
)

// ErrNotReturned means that workers keep their partitions for longer than Config.Timeout.
var ErrNotReturned = errors.New("not all workers gave back their partitions")

// ErrStream means that NATS does not let the partitions be taken.
var ErrStream = errors.New("the stream does not let the partitions be taken")

// DefaultTimeout bounds the workers' return of their partitions by default.
const DefaultTimeout = time.Minute

// Broker takes partitions over from the stream, and wakes workers.
type Broker struct {
	// Publisher publishes nothing here.
	Publisher delivery.Publisher
	// Ring wakes workers that wait for their next look; bell is the end of their bell's subject. Close ends the connections.
	Ring  func(bell string)
	Close func()
}

// Config configures Run. Every field must be set but Timeout and Progress.
type Config struct {
	// Pool should have four connections.
	Pool   *pgxpool.Pool
	Schema string
	Events pgstore.Relation
	// Connect is called when the request was found good.
	Connect func(context.Context) (Broker, error)
	// Timeout bounds the workers' return of their partitions, and then the end of the producers' transactions. Defaults to
	// DefaultTimeout.
	Timeout time.Duration
	// Progress gets a line at each step, the first one when the workers were asked.
	Progress func(line string)
	Logger   *slog.Logger
}

type resize struct {
	Config
	from, to partition.Count
	owner    partition.WorkerID
	leases   *lease.Store
	relay    *loop.Relay
}

// Run changes the number of partitions, and returns the number of moved rows. It refuses what Plan refuses before anything stops; an
// outbox that has the wanted number stays unchanged.
func Run(ctx context.Context, c Config, o Wanted) (Resized, error) {
	if err := cmp.Or(o.check(), maintenance.CheckWords(o.Actor, o.Reason, true)); err != nil {
		return Resized{To: o.To}, err
	}
	done, err := Plan(ctx, c.Pool, c.Schema, c.Events, o)
	done.DryRun = false
	if err != nil || done.From == done.To {
		return done, err
	}
	done.Moved = 0
	broker, err := c.Connect(ctx)
	if err != nil {
		return done, err
	}
	defer broker.Close()
	r := resize{
		Config: c, from: partition.Count(done.From), to: partition.Count(done.To), // that fit, as Plan found
		owner: uuid.Must(uuid.NewV7()),
	}
	r.Timeout = cmp.Or(r.Timeout, DefaultTimeout)
	if r.leases, err = lease.NewStore(ctx, c.Pool, c.Schema); err != nil {
		return done, err
	}
	store, err := pgstore.New(ctx, c.Pool, c.Schema, c.Events)
	if err != nil {
		return done, err
	}
	// The workers decide whether the stream's losses come back.
	if r.relay, err = loop.NewRelay(loop.Config{Logger: c.Logger, Lost: delivery.LostReport}, store, broker.Publisher, loop.Silence{}); err != nil {
		return done, err
	}
	defer func() {
		broker.Ring("")
		broker.Ring(".cluster")
	}()
	done.Moved, err = r.run(ctx, o)
	return done, err
}

func (r *resize) run(ctx context.Context, o Wanted) (moved int, err error) {
	audit, err := maintenance.New(r.Pool, r.Schema)
	if err != nil {
		return 0, err
	}
	thaw, err := lease.Freeze(ctx, r.Pool, r.Schema, r.owner, r.Logger)
	if err != nil {
		return 0, err
	}
	moved, err = r.change(ctx, func(tx pgx.Tx, from partition.Count, moved int) error {
		return audit.Record(ctx, tx, o.Actor, "partitions.resize", map[string]int{"from": int(from), "to": int(r.to)}, o.Reason, map[string]int{"moved": moved})
	})
	if err != nil && !errors.Is(err, ErrCountChanged) && r.changed(ctx) {
		err = nil
	}
	ending := errors.Join(r.giveBack(ctx), thaw())
	if err == nil && ending != nil {
		r.Logger.WarnContext(ctx, "the number of partitions was changed; what was held for that ends by itself", "from", r.from, "to", r.to, "error", ending)
		return moved, nil
	}
	return moved, errors.Join(err, ending)
}

// change makes the change while the workers hold nothing.
func (r *resize) change(ctx context.Context, record func(pgx.Tx, partition.Count, int) error) (moved int, err error) {
	now, err := counted(ctx, r.Pool, r.Schema, r.Events)
	if err == nil && now != int(r.from) { // another resize has ended since Plan
		err = countChanged(now, int(r.from))
	}
	if err != nil {
		return 0, err
	}
	leases, err := r.take(ctx)
	if err != nil {
		return 0, err
	}
	r.say("moving pending rows; producers wait")
	return Move(ctx, r.Pool, r.Schema, r.Events, leases, r.to, r.Timeout, record)
}

// changed reports whether the number is the wanted one although the commit's answer was lost.
func (r *resize) changed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	now, err := counted(ctx, r.Pool, r.Schema, r.Events)
	return err == nil && now == int(r.to)
}

func (r *resize) say(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// take takes every partition, from the workers and from the stream. A refusal teaches a database that is older than its stream, as after
// a failover, the epochs above which its second leases lie.
func (r *resize) take(ctx context.Context) ([]*lease.Lease, error) {
	for attempt := 1; ; attempt++ {
		leases, err := r.acquire(ctx)
		if err != nil {
			return leases, err
		}
		r.say("all %d partitions are here; taking them from the stream", len(leases))
		err = r.relay.Take(ctx, leases)
		fenced := errors.Is(err, delivery.ErrFenced)
		if fenced || errors.Is(err, delivery.ErrOutage) {
			err = fmt.Errorf("%w: %w", ErrStream, err)
		}
		if !fenced || attempt > 1 {
			return leases, err
		}
		if err := r.giveBack(ctx); err != nil {
			return leases, err
		}
	}
}

// acquire waits for the workers and takes every partition.
func (r *resize) acquire(ctx context.Context) (held []*lease.Lease, err error) {
	missing, here := make([]partition.ID, r.from), map[partition.ID]bool{}
	for i := range missing {
		missing[i] = partition.ID(i) // a count that fits
	}
	wait, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("%w within %s (--timeout)", ErrNotReturned, r.Timeout))
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		taken, err := r.leases.AcquireFrozen(wait, r.owner, leaseTTL, missing)
		if err != nil {
			return held, fmt.Errorf("%w: %w", err, context.Cause(wait))
		}
		held = append(held, taken...)
		if len(held) == int(r.from) {
			return held, nil
		}
		r.say("waiting for the workers: %d of %d partitions are here", len(held), r.from)
		for _, l := range taken {
			here[l.Partition] = true
		}
		missing = slices.DeleteFunc(missing, func(id partition.ID) bool { return here[id] })
		select {
		case <-ticker.C:
		case <-wait.Done():
			return held, context.Cause(wait)
		}
	}
}

func (r *resize) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	_, err := r.leases.Disown(ctx, r.owner)
	return err
}
