package deployment_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

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
	consumer, err := inbox.NewConsumer(box, js, func(_ context.Context, _ pgx.Tx, m inbox.Message) ([]byte, error) {
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
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.a", Header: nats.Header{
			inbox.HeaderEventID: {id}, inbox.HeaderStream: {stream}, inbox.HeaderStreamVersion: {"1"},
			inbox.HeaderSequence: {"1"}, inbox.HeaderPartition: {"1"}, inbox.HeaderType: {"a"},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	pool := pgtest.Pool(t, r.superuser)
	quoted := pgx.Identifier{r.schema}.Sanitize()
	clustertest.Until(t, "messages are dealt with", func(ctx context.Context) (done bool, err error) {
		err = pool.QueryRow(ctx, `SELECT (SELECT count(*) = 1 FROM `+quoted+`.inbox_parked WHERE state = 'dead')
			AND (SELECT count(*) = 1 FROM `+quoted+`.inbox_records) AND (SELECT count(*) = 1 FROM `+quoted+`.inbox_malformed)`).Scan(&done)
		return done, err
	}, nil)
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
