package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
)

type partitionsResizeCmd struct {
	databaseFlags
	natsFlags
	streamFlags
	actorFlags

	Count   int           `arg:"" help:"Number of partitions from now on, 1 to 32767."`
	Timeout time.Duration `help:"How long to wait for the workers to give back their partitions, and then for producers to end their transactions." default:"1m"`
	DryRun  bool          `help:"Say what would be done, and do nothing." env:"-"`
	Yes     bool          `help:"Confirm that delivery stops while the partitions change." env:"-"`
	JSON    bool          `help:"Print one JSON object." name:"json"`
}

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

func (c *partitionsResizeCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
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
	info, err := checkSchema(s.ctx, pool, schema.Config{Schema: c.Schema, Stream: c.Stream, Subject: c.Subject})
	if err != nil {
		return err
	}
	c.complete(info)
	var done resize.Resized
	order := resize.Wanted{To: c.Count, Actor: c.actor(), Reason: c.Reason}
	if c.DryRun {
		done, err = resize.Plan(s.ctx, pool, c.Schema, info.events, order)
	} else {
		done, err = resize.Run(s.ctx, resize.Config{
			Pool: pool, Schema: c.Schema, Events: info.events, Timeout: c.Timeout, Logger: s.logger(),
			Connect:  func(ctx context.Context) (resize.Broker, error) { return c.broker(ctx, info, s.logger()) },
			Progress: func(line string) { fmt.Fprintln(s.stderr, line) },
		}, order)
	}
	if err != nil {
		return inputRefused(err)
	}
	text := "%s were %d; %s moved"
	if c.DryRun {
		text = "would make %s of %d; %s would move"
	}
	return answer(s.stdout, c.JSON, done, fmt.Sprintf(text, counted(done.To, "partition"), done.From, counted(done.Moved, "pending row")))
}

// broker makes the publisher, which takes partitions over, and the doorbell.
func (c *partitionsResizeCmd) broker(ctx context.Context, info outboxInfo, log *slog.Logger) (resize.Broker, error) {
	nc, apiPrefix, err := c.connect("postrider resize", log)
	if err != nil {
		return resize.Broker{}, err
	}
	publisher, done, err := c.publisher(ctx, nc, apiPrefix, info, log)
	if err != nil {
		nc.Close()
		return resize.Broker{}, err
	}
	return resize.Broker{
		Publisher: publisher,
		Ring:      func(bell string) { _ = nc.Publish(outbox.BellSubject(c.Schema)+bell, nil) },
		Close: func() {
			_ = nc.FlushTimeout(time.Second) // workers that miss the ring poll later
			done()
			nc.Close()
		},
	}, nil
}

func (c *partitionsResizeCmd) publisher(ctx context.Context, nc *nats.Conn, apiPrefix string, info outboxInfo, log *slog.Logger) (p delivery.Publisher, done func(), err error) {
	subject, err := wire.ParseSubject(c.Subject)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	stream, err := streams.EnsureFenced(ctx, nc, streams.StreamConfig{Name: c.Stream, APIPrefix: apiPrefix, Subject: subject, Control: info.control(), Logger: log})
	if err != nil { // workers refuse it, too: without its fence the stream would not know of the move
		return nil, nil, refusedFor(wire.ErrStreamUnfit, err)
	}
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{
		Stream: c.Stream, APIPrefix: apiPrefix, Shape: wire.Shape{Subject: subject}, Control: info.control(), Found: stream,
	})
	return publisher, func() { _ = publisher.Close() }, err
}
