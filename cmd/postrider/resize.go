package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
)

type partitionsResizeCmd struct {
	databaseFlags
	natsFlags
	streamFlags
	actorFlags

	Count   int           `arg:"" help:"Number of partitions from now on, 1 to 32767."`
	Timeout time.Duration `help:"How long to wait for the workers to give back their partitions." default:"1m"`
	DryRun  bool          `help:"Say what would be done, and do nothing." env:"-"`
	Yes     bool          `help:"Confirm that delivery stops while the partitions change." env:"-"`
	JSON    bool          `help:"Print one JSON object." name:"json"`
}

// Help says what happens.
func (c *partitionsResizeCmd) Help() string {
	return `Workers give back all partitions and take the new ones when it is done; producers
wait while the pending rows are moved. Every stream keeps its order. Messages to
come carry a higher Outbox-Generation, since sequences begin anew in each partition.
--yes and --reason are required. While some partitions are paused and others are not
it is refused: their streams would meet. An outbox that is paused as a whole stays so.

Examples:
  postrider partitions resize 128 --dry-run
  postrider partitions resize 128 --yes --reason "more workers"`
}

// resized is what the command prints.
type resized struct {
	From   int  `json:"from"`
	To     int  `json:"to"`
	Moved  int  `json:"moved"`
	DryRun bool `json:"dry_run"`
}

// Run changes the number of partitions.
func (c *partitionsResizeCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.Count < 1 || c.Count > 32767 {
		return fmt.Errorf("%w: the number of partitions must lie between 1 and 32767, got %d", errRefused, c.Count)
	}
	switch {
	case c.DryRun:
	case strings.TrimSpace(c.Reason) == "":
		return fmt.Errorf("%w: --reason is required; it is written to the audit", errRefused)
	case !c.Yes:
		return fmt.Errorf("%w: delivery stops and producers wait while the partitions change; say --yes if that is meant", errRefused)
	}
	pool, err := c.pool(s.ctx, "postrider resize", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	info, err := checkSchema(s.ctx, pool, c.Schema)
	if err != nil {
		return err
	}
	events, err := eventsOf(info)
	if err != nil {
		return err
	}
	done := resized{From: int(info.Partitions), To: c.Count, DryRun: c.DryRun}
	if done.From != done.To {
		// Whether it can be done is known before anything stops.
		if done.Moved, err = delivery.PlanResize(s.ctx, pool, c.Schema, events, info.Partitions, partition.Count(c.Count)); err != nil { // checked above
			return err
		}
		if !c.DryRun {
			r := resizing{cmd: c, pool: pool, info: info, events: events, log: s.logger(), progress: s.stderr}
			if done.Moved, err = r.run(s.ctx); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return writeJSON(s.stdout, done)
	}
	text := "%d partitions were %d; %d pending rows moved\n"
	if c.DryRun {
		text = "would make %d partitions of %d; %d pending rows would move\n"
	}
	_, err = fmt.Fprintf(s.stdout, text, done.To, done.From, done.Moved)
	return err
}

// resizing is a resize under way.
type resizing struct {
	cmd      *partitionsResizeCmd
	pool     *pgxpool.Pool
	info     schema.Info
	events   delivery.Relation
	log      *slog.Logger
	progress io.Writer
}

func (r *resizing) run(ctx context.Context) (moved int, err error) {
	nc, err := r.cmd.connect("postrider resize", r.log)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	relay, done, err := r.relay(ctx, nc)
	if err != nil {
		return 0, err
	}
	defer done()
	owner := uuid.Must(uuid.NewV7())
	thaw, err := lease.Freeze(ctx, r.pool, r.cmd.Schema, owner, r.log)
	if err != nil {
		return 0, err
	}
	leases, err := r.take(ctx, relay, owner)
	if err == nil {
		fmt.Fprintln(r.progress, "moving pending rows; producers wait")
		moved, err = delivery.Resize(ctx, r.pool, r.cmd.Schema, r.events, leases, partition.Count(r.cmd.Count)) // checked by Run
	}
	err = errors.Join(err, r.giveBack(ctx, owner), thaw())
	if err == nil {
		err = r.audit(ctx, moved)
	}
	for _, bell := range []string{"", ".cluster"} { // nobody waits for the next look
		_ = nc.Publish(outbox.BellSubject(r.cmd.Schema)+bell, nil)
	}
	return moved, errors.Join(err, nc.FlushTimeout(time.Second))
}

// relay makes what takes partitions over; it delivers nothing.
func (r *resizing) relay(ctx context.Context, nc *nats.Conn) (relay *delivery.Relay, done func(), err error) {
	store, err := delivery.NewStore(ctx, r.pool, r.cmd.Schema, r.events)
	if err != nil {
		return nil, nil, err
	}
	subject, err := natspub.ParseSubject(r.cmd.Subject)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	stream, err := natspub.EnsureStream(ctx, nc, natspub.StreamConfig{Name: r.cmd.Stream, Subject: subject, Logger: r.log})
	if err != nil {
		return nil, nil, err
	}
	var publisher interface {
		delivery.Publisher
		Close() error
	}
	if can, _ := natspub.CanFence(nc, stream); can && natspub.CheckFence(stream.Config) == nil {
		publisher, err = natspub.NewFenced(nc, natspub.FencedConfig{Stream: r.cmd.Stream, Outbox: r.info.OutboxID, NeverExpire: stream.Config.MaxAge > 0})
	} else {
		publisher, err = natspub.NewDedupe(nc, natspub.DedupeConfig{Stream: r.cmd.Stream})
	}
	if err != nil {
		return nil, nil, err
	}
	relay, err = delivery.NewRelay(delivery.Config{Logger: r.log}, store, publisher, silence{})
	return relay, func() { _ = publisher.Close() }, err
}

// silence is a doorbell that nobody rings.
type silence struct{}

func (silence) Rung() <-chan struct{} { return nil }

// take takes every partition, from the workers and from the stream. A database that is older than its stream, as after a
// failover, learns from a refusal above which epochs its leases have to lie: the second ones do.
func (r *resizing) take(ctx context.Context, relay *delivery.Relay, owner partition.WorkerID) ([]*lease.Lease, error) {
	for attempt := 1; ; attempt++ {
		leases, err := r.acquire(ctx, owner)
		if err != nil {
			return leases, err
		}
		fmt.Fprintf(r.progress, "all %d partitions are here; taking them from the stream\n", len(leases))
		if err = relay.Take(ctx, leases); !errors.Is(err, delivery.ErrFenced) || attempt > 1 {
			return leases, err
		}
		if err := r.giveBack(ctx, owner); err != nil {
			return leases, err
		}
	}
}

// acquire waits for the workers and takes every partition.
func (r *resizing) acquire(ctx context.Context, owner partition.WorkerID) ([]*lease.Lease, error) {
	store, err := lease.NewStore(r.pool, r.cmd.Schema)
	if err != nil {
		return nil, err
	}
	missing := make([]partition.ID, r.info.Partitions)
	for i := range missing {
		missing[i] = partition.ID(i) // a count that fits
	}
	wait, cancel := context.WithTimeoutCause(ctx, r.cmd.Timeout, fmt.Errorf("not all workers gave back their partitions within %s (--timeout)", r.cmd.Timeout))
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	var held []*lease.Lease
	for {
		taken, err := store.AcquireFrozen(wait, owner, time.Minute, missing)
		if err != nil {
			return held, fmt.Errorf("%w: %w", err, context.Cause(wait))
		}
		held = append(held, taken...)
		if len(held) == int(r.info.Partitions) {
			return held, nil
		}
		fmt.Fprintf(r.progress, "waiting for the workers: %d of %d partitions are here\n", len(held), r.info.Partitions)
		missing = without(missing, taken)
		select {
		case <-ticker.C:
		case <-wait.Done():
			return held, context.Cause(wait)
		}
	}
}

func without(ids []partition.ID, leases []*lease.Lease) []partition.ID {
	taken := map[partition.ID]bool{}
	for _, l := range leases {
		taken[l.Partition] = true
	}
	var left []partition.ID
	for _, id := range ids {
		if !taken[id] {
			left = append(left, id)
		}
	}
	return left
}

func (r *resizing) giveBack(ctx context.Context, owner partition.WorkerID) error {
	store, err := lease.NewStore(r.pool, r.cmd.Schema)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	_, err = store.Disown(ctx, owner)
	return err
}

func (r *resizing) audit(ctx context.Context, moved int) error {
	_, err := r.pool.Exec(ctx, `INSERT INTO `+pgx.Identifier{r.cmd.Schema, "outbox_audit"}.Sanitize()+` (actor, action, target, reason, details)
		VALUES ($1, 'partitions.resize', jsonb_build_object('from', $2::int, 'to', $3::int), nullif($4, ''), jsonb_build_object('moved', $5::int))`,
		r.cmd.actor(), int(r.info.Partitions), r.cmd.Count, r.cmd.Reason, moved)
	return err
}
