package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/tools/bench/measure"
)

// A table with a column for what is sent, and a loop.
func TestAMoveFromATableOfOnesOwn(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{})
	if _, err := c.Pool.Exec(t.Context(), `CREATE SCHEMA app; CREATE TABLE app.outbox
		(id bigserial PRIMARY KEY, customer text NOT NULL, kind text NOT NULL, body jsonb NOT NULL, sent_at timestamptz)`); err != nil {
		t.Fatal(err)
	}
	move(t, c, origin{
		section: "A table of your own", drop: "postrider adopt drop", topic: "default",
		insert: func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
			_, err := tx.Exec(ctx, `INSERT INTO app.outbox (customer, kind, body) VALUES ($1, $2, $3)`, e.Stream, e.Type, e.Payload)
			return err
		},
		start: startLoop,
		leave: func(t *testing.T, m *moving, stop func()) func() {
			t.Helper()
			stop()
			m.brings(t, `SELECT count(*) FROM app.outbox WHERE sent_at IS NULL`)
			return nil
		},
	})
	if n := c.Count(t, `SELECT count(*) FROM app.outbox WHERE sent_at IS NULL`); n != 0 {
		t.Errorf("%d rows are left unsent", n)
	}
}

// startLoop sends and marks rows in the order of their ids.
func startLoop(t *testing.T, m *moving) func() {
	t.Helper()
	ctx, ending, ended := t.Context(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ending:
				return
			default:
			}
			if err := pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error { return m.sendRows(ctx, tx) }); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { close(ending); <-ended }
}

func (m *moving) sendRows(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT id, customer, body FROM app.outbox WHERE sent_at IS NULL ORDER BY id LIMIT 20 FOR UPDATE`)
	if err != nil {
		return err
	}
	var id int64
	var sent []int64
	var account string
	var body []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &account, &body}, func() error {
		sent = append(sent, id)
		return m.told(account, body)
	}); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE app.outbox SET sent_at = clock_timestamp() WHERE id = ANY ($1)`, sent)
	return err
}

// mailJob is a job that is no event.
type mailJob struct{}

// Kind implements river.JobArgs.
func (mailJob) Kind() string { return "mail" }

// River's own client inserts; jobs of another kind stay with River.
func TestAMoveFromRiver(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{})
	if err := createRiver(t.Context(), c.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	inserting, err := river.NewClient(riverpgxv5.New(nil), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var mails atomic.Int64
	move(t, c, origin{
		section: "River", drop: "postrider adopt drop", topic: "default", unordered: true,
		insert: func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
			_, err := inserting.InsertManyTx(ctx, tx, []river.InsertManyParams{{Args: publishJob{*e}}, {Args: mailJob{}}})
			return err
		},
		start: func(t *testing.T, m *moving) func() {
			t.Helper()
			return startRiver(t, m, &mails)
		},
		leave: func(t *testing.T, m *moving, stop func()) func() {
			t.Helper()
			stop()
			m.brings(t, `SELECT count(*) FROM river_job WHERE finalized_at IS NULL AND kind = 'publish'`)
			return startRiver(t, m, &mails)
		},
	})
	if told := c.Count(t, `SELECT count(*) FROM events WHERE event_type = 'mail'`); told != 0 || mails.Load() == 0 {
		t.Errorf("of the other kind, %d jobs became events, and River worked %d", told, mails.Load())
	}
}

func startRiver(t *testing.T, m *moving, mails *atomic.Int64) func() {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[publishJob]) error {
		return m.told(job.Args.Stream, []byte(job.Args.Payload))
	}))
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[mailJob]) error {
		mails.Add(1)
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(m.Pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverJobs}}, Workers: workers, FetchCooldown: riverCooldown,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := client.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Watermill's own publisher and forwarder, with its envelope.
func TestAMoveFromWatermill(t *testing.T) {
	t.Parallel()
	const topic = "outbox"
	c := clustertest.New(t, clustertest.Config{})
	if err := initialize(t.Context(), sql.BeginnerFromPgx(c.Pool), topic); err != nil {
		t.Fatal(err)
	}
	move(t, c, origin{
		section: "Watermill", drop: "postrider adopt drop", topic: "events", unordered: true,
		insert: func(_ context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
			m := message.NewMessage(e.ID.String(), []byte(e.Payload))
			m.Metadata.Set("account", e.Stream)
			return insertTx(tx, topic, m)
		},
		start: func(t *testing.T, m *moving) func() {
			t.Helper()
			return startForwarder(t, m, topic)
		},
		leave: func(t *testing.T, m *moving, stop func()) func() {
			t.Helper()
			stop()
			m.sql(t, "DELETE FROM")
			m.sql(t, "ALTER TABLE")
			m.brings(t, `SELECT count(*) FROM watermill_outbox`)
			return nil
		},
	})
}

// away is a publisher whose broker can go away.
type away struct {
	m       *moving
	gone    atomic.Bool
	refused chan struct{} // gets one when a message was refused: those before it are acknowledged
}

// Publish implements message.Publisher.
func (p *away) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		if p.gone.Load() {
			select {
			case p.refused <- struct{}{}:
			default:
			}
			return errors.New("the broker is away")
		}
		if err := p.m.told(m.Metadata.Get("account"), m.Payload); err != nil {
			return err
		}
	}
	return nil
}

// Close implements message.Publisher.
func (*away) Close() error { return nil }

// startForwarder returns what closes it while it publishes nothing.
func startForwarder(t *testing.T, m *moving, topic string) func() {
	t.Helper()
	// One message a batch: closed amid a larger one it forgets that it has sent those before.
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(m.Pool), sql.SubscriberConfig{
		SchemaAdapter: sql.DefaultPostgreSQLSchema{SubscribeBatchSize: 1}, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, PollInterval: watermillPoll, ResendInterval: time.Millisecond,
	}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	publisher := &away{m: m, refused: make(chan struct{}, 1)}
	f, err := forwarder.NewForwarder(subscriber, publisher, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: topic, CloseTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context()) }()
	return func() {
		publisher.gone.Store(true)
		select {
		case <-publisher.refused:
		case <-m.ended:
		}
		if err := errors.Join(f.Close(), <-ended); err != nil {
			t.Error(err)
		}
	}
}
