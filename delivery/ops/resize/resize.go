package resize

import (
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
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

const (
	// leaseTTL outlasts the steps; Move compares the leases.
	leaseTTL = time.Minute
	// look is how often it is looked what the workers have given back.
	look = 200 * time.Millisecond
	// endPatience bounds giving back, which also happens when the context has ended.
	endPatience = 10 * time.Second
)

// Config is what Run needs. Every field must be set but Reason.
type Config struct {
	Pool     *pgxpool.Pool
	Schema   string
	Events   delivery.Relation
	From, To partition.Count
	// Publisher takes partitions over; it publishes nothing.
	Publisher delivery.Publisher
	// Timeout is how long the workers may take to give back their partitions.
	Timeout       time.Duration
	Actor, Reason string
	// Progress gets a line at each step.
	Progress func(line string)
	Logger   *slog.Logger
}

// resize is one under way.
type resize struct {
	Config
	owner  partition.WorkerID
	leases *lease.Store
	relay  *delivery.Relay
}

// Run changes the number of partitions, and tells how many pending rows moved. Workers that wait for their next look are not woken.
func Run(ctx context.Context, c Config) (moved int, err error) {
	r := resize{Config: c, owner: uuid.Must(uuid.NewV7())}
	if r.leases, err = lease.NewStore(ctx, c.Pool, c.Schema); err != nil {
		return 0, err
	}
	store, err := delivery.NewStore(ctx, c.Pool, c.Schema, c.Events)
	if err != nil {
		return 0, err
	}
	if r.relay, err = delivery.NewRelay(delivery.Config{Logger: c.Logger}, store, c.Publisher, delivery.Silence{}); err != nil {
		return 0, err
	}
	audit, err := maintenance.New(c.Pool, c.Schema)
	if err != nil {
		return 0, err
	}
	thaw, err := lease.Freeze(ctx, c.Pool, c.Schema, r.owner, c.Logger)
	if err != nil {
		return 0, err
	}
	leases, err := r.take(ctx)
	if err == nil {
		c.Progress("moving pending rows; producers wait")
		moved, err = Move(ctx, c.Pool, c.Schema, c.Events, leases, c.To, func(tx pgx.Tx, from partition.Count, moved int) error {
			return audit.Record(ctx, tx, c.Actor, "partitions.resize", map[string]int{"from": int(from), "to": int(c.To)}, c.Reason, map[string]int{"moved": moved})
		})
	}
	return moved, errors.Join(err, r.giveBack(ctx), thaw())
}

// take takes every partition, from the workers and from the stream. A database that is older than its stream, as after a
// failover, learns from a refusal above which epochs its leases have to lie: the second ones do.
func (r *resize) take(ctx context.Context) ([]*lease.Lease, error) {
	for attempt := 1; ; attempt++ {
		leases, err := r.acquire(ctx)
		if err != nil {
			return leases, err
		}
		r.Progress(fmt.Sprintf("all %d partitions are here; taking them from the stream", len(leases)))
		if err = r.relay.Take(ctx, leases); !errors.Is(err, delivery.ErrFenced) || attempt > 1 {
			return leases, err
		}
		if err := r.giveBack(ctx); err != nil {
			return leases, err
		}
	}
}

// acquire waits for the workers and takes every partition.
func (r *resize) acquire(ctx context.Context) (held []*lease.Lease, err error) {
	missing, here := make([]partition.ID, r.From), map[partition.ID]bool{}
	for i := range missing {
		missing[i] = partition.ID(i) // a count that fits
	}
	wait, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("not all workers gave back their partitions within %s (--timeout)", r.Timeout))
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		taken, err := r.leases.AcquireFrozen(wait, r.owner, leaseTTL, missing)
		if err != nil {
			return held, fmt.Errorf("%w: %w", err, context.Cause(wait))
		}
		held = append(held, taken...)
		if len(held) == int(r.From) {
			return held, nil
		}
		r.Progress(fmt.Sprintf("waiting for the workers: %d of %d partitions are here", len(held), r.From))
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
