package deployment_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// The rights in NATS that docs/inbox.md names suffice for a consumer, and its lag is measured with them.
func TestTheConsumersRightsInNATS(t *testing.T) { //nolint:paralleltest // sets the environment
	documented := regexp.MustCompile("(?s)```\npublish: (.*?)\nsubscribe: (.*?)\n```").FindStringSubmatch(read(t, "docs/inbox.md"))
	if documented == nil {
		t.Fatal("docs/inbox.md names no rights")
	}
	r := newRestricted(t, func(p *server.Permissions) {
		p.Publish.Allow, p.Subscribe.Allow = strings.Fields(documented[1]), strings.Fields(documented[2])
	})
	js, err := jetstream.New(r.connectWith(t, "relay", strings.TrimSuffix(documented[2], ".>"))) // complains of whatever is refused
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, pgtest.URL(t))
	if err := inbox.Migrate(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(pool, inbox.Config{Name: "rights"})
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT count(*) = 1 FROM inbox_records`,
		`SELECT min(position) = 2 AND min(position_time) > 1 FROM inbox_lanes`,
	} {
		publishEvent(t, r.js, "fine", "018f4f0e-0000-7000-8000-000000000001")
		nothing := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, nil }
		consumer, err := inbox.NewConsumer(box, js, nothing, inbox.ConsumerConfig{QuietTime: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- consumer.Run(ctx) }()
		untilTrue(t, pool, sql)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		// The second time it reads the stream's past again, and looks for what it has read.
		if _, err := pool.Exec(t.Context(), `UPDATE inbox_lanes SET position = 2, position_time = 1`); err != nil {
			t.Fatal(err)
		}
	}
}

func untilTrue(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	clustertest.Until(t, sql, func(ctx context.Context) (done bool, err error) {
		err = pool.QueryRow(ctx, sql).Scan(&done)
		return done, err
	}, nil)
}

func publishEvent(t *testing.T, js jetstream.JetStream, stream, id string) {
	t.Helper()
	_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.a", Header: nats.Header{
		message.HeaderEventID: {id}, message.HeaderStream: {stream}, message.HeaderStreamVersion: {"1"},
		message.HeaderSequence: {"1"}, message.HeaderPartition: {"1"}, message.HeaderType: {"a"},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// A consumer with its own role alone reads, parks and purges, and mends with the commands.
func TestTheConsumersRoleSuffices(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"public", "Shop"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			consumerSuffices(t, newRoles(t, schema))
		})
	}
}

func consumerSuffices(t *testing.T, r roles) {
	t.Helper()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	box, err := inbox.New(pgtest.Pool(t, r.url(t, "consumer")), inbox.Config{Name: "billing", Schema: r.schema})
	if err != nil {
		t.Fatal(err)
	}
	js := broker.JetStream(t)
	consumer, err := inbox.NewConsumer(box, js, func(_ context.Context, _ pgx.Tx, m message.Message) ([]byte, error) {
		if m.Stream == "fine" {
			return nil, nil
		}
		return nil, inbox.Final(errors.New("of no use"))
	}, inbox.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	const broken = "018f4f0e-0000-7000-8000-000000000002"
	ids := map[string]string{"fine": "018f4f0e-0000-7000-8000-000000000001", "broken": broken, "": broken} // the last is malformed
	for stream, id := range ids {
		publishEvent(t, js, stream, id)
	}
	pool := pgtest.Pool(t, r.superuser)
	quoted := pgx.Identifier{r.schema}.Sanitize()
	untilTrue(t, pool, `SELECT (SELECT count(*) = 1 FROM `+quoted+`.inbox_parked WHERE state = 'dead')
		AND (SELECT count(*) = 1 FROM `+quoted+`.inbox_records) AND (SELECT count(*) = 1 FROM `+quoted+`.inbox_malformed)`)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, callErr := box.Call(t.Context(), inbox.Call{Sender: "s", ID: 1}, func(context.Context, pgx.Tx) ([]byte, error) { return nil, nil })
	_, purgeErr := box.Purge(t.Context())
	if err := errors.Join(callErr, purgeErr, box.Forget(t.Context(), "fine")); err != nil {
		t.Error(err)
	}
	for _, command := range [][]string{
		{"dead", "--consumer=billing"},
		{"skip", "--consumer=billing", "--note=test", broken},
		{"requeue", "--consumer=billing", "--all"},
	} {
		mustPostrider(t, r.environment(t, "consumer"), append([]string{"inbox"}, command...)...)
	}
}

// direct is a caller's receiver in the same process.
type direct struct{ *inbox.Inbox }

// Call implements caller.Receiver.
func (d direct) Call(ctx context.Context, call inbox.Call, request []byte) ([]byte, error) {
	o, err := d.Inbox.Call(ctx, call, func(context.Context, pgx.Tx) ([]byte, error) { return request, nil })
	return o.Result, errors.Join(err, o.Err)
}

// Last implements caller.Receiver.
func (d direct) Last(ctx context.Context, sender string) (inbox.Call, error) {
	return d.LastCall(ctx, sender)
}

// callOnce has a call queued, carried out by the inbox and answered, with the pool's rights alone.
func callOnce(t *testing.T, pool *pgxpool.Pool, box *inbox.Inbox, schema string) {
	t.Helper()
	answers := make(chan string, 1)
	c, err := caller.New(pool, direct{box}, func(_ context.Context, _ pgx.Tx, _, result []byte, no error) error {
		answers <- string(result)
		return no
	}, caller.Config{Name: "sender", Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return c.Queue(t.Context(), tx, []byte("hello")) }); err != nil {
		t.Fatalf("queue a call: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	untilTrue(t, pool, `SELECT NOT EXISTS (SELECT FROM `+pgx.Identifier{schema, "inbox_calls"}.Sanitize()+`)`)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if answer := <-answers; answer != "hello" {
		t.Errorf("the call is answered with %q", answer)
	}
}
