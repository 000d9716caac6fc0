package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/tools/bench/measure"
)

// relayCommand makes this test binary a process of a relay: the argument after it names which.
const relayCommand = "faults-relay"

// relay is what the faults are tried on: processes that know the addresses of the database and of the brokers.
type relay struct {
	name      string
	settings  string // in words
	processes int
	// serve is a process; where there is none `postrider run` is.
	serve  func(ctx context.Context, s measure.PeerSettings, begin func() error) error
	create func(t *testing.T, database string)
	insert func() (insertion, error)
	// waiting asks for the ids of the events that the relay still has to publish.
	waiting string
}

// insertion puts an event into the relay's tables within the producer's transaction, and says which number it has.
type insertion func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error

// River's jobs take milliseconds. With its defaults, a minute and an hour, the jobs of a killed process would wait longer than a run.
const (
	riverTimeout = 5 * time.Second
	riverRescue  = 10 * time.Second
)

// relays are all that faults can be tried on, with what their documentation recommends for at least once and for order.
func relays() []relay {
	rivers := "River " + versionOf("github.com/riverqueue/river")
	watermills := "Watermill SQL " + versionOf("github.com/ThreeDotsLabs/watermill-sql/v4")
	rescue := fmt.Sprintf("JobTimeout %s, RescueStuckJobsAfter %s, message ids", riverTimeout, riverRescue)
	return []relay{
		postrider(),
		riverOf("River, one at a time", rivers+": one process, MaxWorkers 1, FetchCooldown 1 ms, "+rescue, 1, river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}, FetchCooldown: river.FetchCooldownMin,
		}),
		riverOf("River, 100 workers", rivers+": MaxWorkers 100, "+rescue, 3, river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverJobs}},
		}),
		watermillOf("Watermill, 1 topic", watermills+": forwarder, default schema and offsets, message ids", 1),
		watermillOf("Watermill, 8 topics", watermills+": the same, 8 forwarders, topics by partition", watermillTopics),
	}
}

func postrider() relay {
	return relay{
		name: "Postrider", settings: "defaults: a lease TTL of 10 s, by partition, 64 partitions", processes: 3,
		create: func(t *testing.T, database string) {
			t.Helper()
			if p := clustertest.Launch(t, "migrate", []string{"DATABASE_URL=" + database}, "migrate", "up"); p.Exit(t) != 0 {
				t.Fatalf("migrate up: %s", p.Stderr())
			}
		},
		insert: func() (insertion, error) {
			producer, err := outbox.New(outbox.Config{})
			return func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
				appended, err := producer.AppendTx(ctx, tx, outbox.Event{ID: e.ID, StreamID: e.Stream, Type: e.Type, Payload: []byte(e.Payload)})
				if err == nil {
					e.Sequence = appended[0].Sequence
				}
				return err
			}, err
		},
		waiting: `SELECT e.event_id FROM outbox AS o JOIN events AS e ON e.sequence = o.global_sequence`,
	}
}

func riverOf(name, settings string, processes int, config river.Config) relay {
	config.JobTimeout, config.RescueStuckJobsAfter = riverTimeout, riverRescue
	return relay{
		name: name, settings: settings, processes: processes,
		serve: func(ctx context.Context, s measure.PeerSettings, begin func() error) error {
			return runRiver(ctx, s, config, begin)
		},
		create: created(createRiver),
		insert: func() (insertion, error) {
			client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{FetchCooldown: config.FetchCooldown})
			return numbered(func(ctx context.Context, tx pgx.Tx, e measure.PeerEvent) error {
				_, err := client.InsertTx(ctx, tx, publishJob{e}, nil)
				return err
			}), err
		},
		waiting: `SELECT (args ->> 'id')::uuid FROM river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')`,
	}
}

func watermillOf(name, settings string, topics int) relay {
	waiting := ""
	for n := range topics {
		if n > 0 {
			waiting += "\nUNION ALL "
		}
		waiting += fmt.Sprintf(`SELECT (payload ->> 'uuid')::uuid FROM watermill_%[1]s AS m, watermill_offsets_%[1]s AS o
			WHERE (m.transaction_id, m."offset") > (o.last_processed_transaction_id, o.offset_acked)`, watermillTopic(n))
	}
	return relay{
		name: name, settings: settings, processes: 3,
		serve:  runWatermill(topics, sql.SubscriberConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}),
		create: created(createWatermill(topics)),
		insert: func() (insertion, error) {
			return numbered(func(_ context.Context, tx pgx.Tx, e measure.PeerEvent) error {
				m, err := watermillMessage(e)
				if err != nil {
					return err
				}
				return insertTx(tx, watermillTopic(int(e.Partition)%topics), m)
			}), nil
		},
		waiting: waiting,
	}
}

func created(create func(ctx context.Context, database string) error) func(*testing.T, string) {
	return func(t *testing.T, database string) {
		t.Helper()
		if err := create(t.Context(), database); err != nil {
			t.Fatal(err)
		}
	}
}

// numbered draws the event's number as Postrider's table does: where it is inserted, under the lock of its stream.
func numbered(insert measure.Insert) insertion {
	return func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
		if err := tx.QueryRow(ctx, `SELECT nextval('numbers')`).Scan(&e.Sequence); err != nil {
			return err
		}
		return insert(ctx, tx, *e)
	}
}

// serveRelay is what a process of a relay does until it is told to end.
func serveRelay(name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, r := range relays() {
		if r.name == name && r.serve != nil {
			s := measure.PeerSettings{Database: os.Getenv("DATABASE_URL"), NATS: os.Getenv("NATS_URL")}
			return r.serve(ctx, s, func() error { return nil })
		}
	}
	return fmt.Errorf("there is no relay %q", name)
}
