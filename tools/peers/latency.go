package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/postrider/postrider/tools/bench/measure"
)

// handlerPart is a handler that this program runs, by the argument of the hidden command.
type handlerPart func(ctx context.Context, s measure.PeerSettings, h *measure.Handler) error

// riverCooldown and the like are choices that documentation leaves open; 0 is the library's own default.
const (
	riverJobs       = 100 // at once, as in River's own examples
	riverCooldown   = river.FetchCooldownMin
	watermillQuick  = 10 * time.Millisecond
	watermillTopics = 8
)

// handlers returns the handlers by part.
func handlers() map[string]handlerPart {
	return map[string]handlerPart{
		"latency-river":            handleRiver(0),
		"latency-river-quick":      handleRiver(riverCooldown),
		"latency-watermill":        handleWatermill(1, 0),
		"latency-watermill-quick":  handleWatermill(1, watermillQuick),
		"latency-watermill8-quick": handleWatermill(watermillTopics, watermillQuick),
	}
}

// systems returns the measured systems in Go.
func systems() []measure.System {
	rivers := "River " + versionOf("github.com/riverqueue/river")
	watermills := "Watermill SQL " + versionOf("github.com/ThreeDotsLabs/watermill-sql/v4")
	return []measure.System{
		{Name: rivers + ", defaults", Part: "latency-river", Create: createRiver, Producer: produceRiver(0)},
		{
			Name: fmt.Sprintf("%s, cooldown %s", rivers, riverCooldown), Part: "latency-river-quick", Create: createRiver,
			Producer: produceRiver(riverCooldown),
		},
		{Name: watermills + ", 1 topic, defaults", Part: "latency-watermill", Create: createWatermill(1), Producer: produceWatermill(1)},
		{
			Name: fmt.Sprintf("%s, 1 topic, poll %s", watermills, watermillQuick), Part: "latency-watermill-quick",
			Create: createWatermill(1), Producer: produceWatermill(1),
		},
		{
			Name: fmt.Sprintf("%s, %d topics, poll %s", watermills, watermillTopics, watermillQuick), Part: "latency-watermill8-quick",
			Create: createWatermill(watermillTopics), Producer: produceWatermill(watermillTopics),
		},
	}
}

const unknownVersion = "of unknown version"

// versionOf returns the version of a module in this program.
func versionOf(module string) string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return unknownVersion
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return unknownVersion
}

// handled is an event as a job.
type handled struct {
	ID      uuid.UUID       `json:"id"`
	Payload json.RawMessage `json:"payload"`
}

// Kind implements river.JobArgs.
func (handled) Kind() string { return "handled" }

func handledOf(e measure.PeerEvent) handled {
	return handled{e.ID, json.RawMessage(e.Payload)}
}

func createRiver(ctx context.Context, database string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// produceRiver inserts jobs. The inserting client notifies at most once a cooldown, too.
func produceRiver(cooldown time.Duration) func() (measure.Insert, error) {
	return func() (measure.Insert, error) {
		client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{FetchCooldown: cooldown})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx pgx.Tx, e measure.PeerEvent) error {
			_, err := client.InsertTx(ctx, tx, handledOf(e), nil)
			return err
		}, nil
	}
}

// handleWorker notes a job when it starts.
type handleWorker struct {
	river.WorkerDefaults[handled]

	h *measure.Handler
}

// Work implements river.Worker.
func (w *handleWorker) Work(_ context.Context, job *river.Job[handled]) error {
	w.h.Receive(job.Args.ID)
	return nil
}

func handleRiver(cooldown time.Duration) handlerPart {
	return func(ctx context.Context, s measure.PeerSettings, h *measure.Handler) error {
		pool, err := pgxpool.New(ctx, s.Database)
		if err != nil {
			return err
		}
		defer pool.Close()
		workers := river.NewWorkers()
		if err := river.AddWorkerSafely(workers, &handleWorker{h: h}); err != nil {
			return err
		}
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverJobs}}, Workers: workers, FetchCooldown: cooldown,
		})
		if err != nil {
			return err
		}
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		err = h.Ready(ctx)
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return errors.Join(err, client.Stop(stop))
	}
}

func createWatermill(topics int) func(context.Context, string) error {
	return func(ctx context.Context, database string) error {
		pool, err := pgxpool.New(ctx, database)
		if err != nil {
			return err
		}
		defer pool.Close()
		for n := range topics {
			if err := initialize(ctx, sql.BeginnerFromPgx(pool), watermillTopic(n)); err != nil {
				return err
			}
		}
		return nil
	}
}

// produceWatermill publishes to that many topics, by partition.
func produceWatermill(topics int) func() (measure.Insert, error) {
	return func() (measure.Insert, error) {
		return func(_ context.Context, tx pgx.Tx, e measure.PeerEvent) error {
			publisher, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			return publisher.Publish(watermillTopic(int(e.Partition)%topics), message.NewMessage(e.ID.String(), message.Payload(e.Payload)))
		}, nil
	}
}

func handleWatermill(topics int, poll time.Duration) handlerPart {
	return func(ctx context.Context, s measure.PeerSettings, h *measure.Handler) error {
		pool, err := pgxpool.New(ctx, s.Database+"&pool_max_conns="+strconv.Itoa(2*topics+4))
		if err != nil {
			return err
		}
		defer pool.Close()
		subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(pool), sql.SubscriberConfig{
			SchemaAdapter: sql.DefaultPostgreSQLSchema{}, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, PollInterval: poll,
		}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		ended := make(chan error, topics)
		for n := range topics {
			messages, err := subscriber.Subscribe(ctx, watermillTopic(n))
			if err != nil {
				return errors.Join(err, subscriber.Close())
			}
			go func() { ended <- handleMessages(messages, h) }()
		}
		err = h.Ready(ctx)
		for range topics {
			err = errors.Join(err, <-ended)
		}
		return errors.Join(err, subscriber.Close())
	}
}

// handleMessages notes messages and acknowledges each, until there are no more.
func handleMessages(messages <-chan *message.Message, h *measure.Handler) (err error) {
	for m := range messages {
		id, parsed := uuid.Parse(m.UUID)
		if parsed != nil {
			err = errors.Join(err, parsed)
		}
		h.Receive(id)
		m.Ack()
	}
	return err
}
