package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/ops/resize"
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
	if !c.DryRun {
		if err := confirmed("delivery stops and producers wait while the partitions change", c.Reason, c.Yes); err != nil {
			return err
		}
	}
	pool, err := c.pool(s.ctx, "postrider resize", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	info, err := checkSchema(s.ctx, pool, c.Schema, 0)
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
		if done.Moved, err = resize.Plan(s.ctx, pool, c.Schema, events, info.Partitions, partition.Count(c.Count)); err != nil { // checked above
			return err
		}
		if !c.DryRun {
			if done.Moved, err = c.resize(s, pool, info, events); err != nil {
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

// resize changes the number of partitions, and wakes the workers.
func (c *partitionsResizeCmd) resize(s *session, pool *pgxpool.Pool, info schema.Info, events delivery.Relation) (moved int, err error) {
	log := s.logger()
	nc, apiPrefix, err := c.connect("postrider resize", log)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	publisher, done, err := c.publisher(s.ctx, nc, apiPrefix, info, log)
	if err != nil {
		return 0, err
	}
	defer done()
	moved, err = resize.Run(s.ctx, resize.Config{
		Pool: pool, Schema: c.Schema, Events: events, From: info.Partitions, To: partition.Count(c.Count), // checked by Run
		Publisher: publisher, Timeout: c.Timeout, Actor: c.actor(), Reason: c.Reason, Logger: log,
		Progress: func(line string) { fmt.Fprintln(s.stderr, line) },
	})
	for _, bell := range []string{"", ".cluster"} { // nobody waits for the next look
		_ = nc.Publish(outbox.BellSubject(c.Schema)+bell, nil)
	}
	return moved, errors.Join(err, nc.FlushTimeout(time.Second))
}

// publisher is what takes partitions over from the stream, by the mode that the workers use.
func (c *partitionsResizeCmd) publisher(ctx context.Context, nc *nats.Conn, apiPrefix string, info schema.Info, log *slog.Logger) (p delivery.Publisher, done func(), err error) {
	subject, err := natspub.ParseSubject(c.Subject)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	stream, err := natspub.EnsureStream(ctx, nc, natspub.StreamConfig{Name: c.Stream, APIPrefix: apiPrefix, Subject: subject, Control: controlOf(info), Logger: log})
	if err != nil {
		return nil, nil, err
	}
	var publisher interface {
		delivery.Publisher
		Close() error
	}
	if can, _ := natspub.CanFence(nc, stream); can && natspub.CheckFence(stream.Config, controlOf(info)) == nil {
		publisher, err = natspub.NewFenced(nc, natspub.FencedConfig{Stream: c.Stream, APIPrefix: apiPrefix, Control: controlOf(info), NeverExpire: stream.Config.MaxAge > 0})
	} else {
		publisher, err = natspub.NewDedupe(nc, natspub.DedupeConfig{Stream: c.Stream, APIPrefix: apiPrefix})
	}
	return publisher, func() { _ = publisher.Close() }, err
}
