package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/outbox"
)

const (
	// oneIn is how many events there are for each that is too large for the broker.
	oneIn = 10_000
	// behind is how many events of its stream follow such an event.
	behind        = 3
	brokerPayload = 64 << 10
)

// One event in ten thousand is too large for the broker: its stream waits, all others flow at full speed, and when it
// is cured its stream follows in order.
func TestPoison(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { poison(t, 1, 2*oneIn) }) //nolint:paralleltest // measures time
	for name, nodes := range topologies() {                      //nolint:paralleltest // measures time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			poison(t, nodes, 10*oneIn)
		})
	}
}

func poison(t *testing.T, nodes, events int) {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes, MaxPayload: brokerPayload})
	s := &stage{Cluster: clustertest.New(t, clustertest.Config{NATS: brokers.Server, Replicas: nodes})}
	s.takeovers = watchTakeovers(t, s.Cluster)
	s.subscriber = s.Subscribe(t, nil)

	s.Backlog(t, events)
	clean := s.drainBacklog(t, events, 0)
	for len(s.workers) > 0 {
		s.leave(t, 0)
	}

	count := events / oneIn
	var poisons []int64
	for n := range count {
		s.Backlog(t, oneIn/2)
		poisons = append(poisons, s.appendPoison(t, fmt.Sprintf("poisoned-%d", n)))
		s.Backlog(t, oneIn/2-1-behind)
	}
	took := s.drainBacklog(t, events-count*(1+behind), count*(1+behind))
	t.Logf("%d events took %s without, %s with %d that are too large", events, clean, took, count)
	if took > 2*clean {
		t.Errorf("with poison delivery took %s, without %s", took, clean)
	}
	for what, want := range map[string]int{
		`dead_at IS NOT NULL AND attempts = 1 AND last_error LIKE '%max_payload%' AND global_sequence = ANY ($1)`: count,
		`blocked AND attempts = 0 AND NOT global_sequence = ANY ($1)`:                                             count * behind,
	} {
		if n := s.Count(t, `SELECT count(*) FROM outbox WHERE `+what, poisons); n != want {
			t.Errorf("%d rows are as they should (%s), want %d", n, what, want)
		}
	}

	s.Count(t, `WITH cured AS (UPDATE events SET payload = '{}' WHERE sequence = ANY ($1) RETURNING 1) SELECT count(*) FROM cured`, poisons)
	requeue := clustertest.Launch(t, "requeue", s.Environment(), "dead", "requeue", "--all", "--yes", "--reason=cured")
	if requeue.Exit(t) != 0 {
		t.Fatalf("dead requeue: %s", requeue.Stderr())
	}
	t.Log(strings.TrimSpace(requeue.Stdout()))
	s.Verify(t, clustertest.Failures)
	s.report(t, count)
}

// drainBacklog starts workers and returns how long it takes until so many events are received and only as many rows
// are left as stay.
func (s *stage) drainBacklog(t *testing.T, events, stay int) time.Duration {
	t.Helper()
	start, before := time.Now(), s.subscriber.Messages()
	s.workers = s.Start(t, 3)
	clustertest.Until(t, fmt.Sprintf("%d events are received", events), func(context.Context) (bool, error) {
		return s.subscriber.Messages()-before >= events, nil
	}, func() string { return fmt.Sprintf("%d are", s.subscriber.Messages()-before) })
	took := time.Since(start)
	left := 0
	clustertest.Until(t, fmt.Sprintf("%d rows are left", stay), func(ctx context.Context) (bool, error) {
		err := s.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&left)
		return left == stay, err
	}, func() string { return fmt.Sprintf("%d are", left) })
	return took
}

// appendPoison appends to a stream an event that is too large and some behind it, and returns its sequence.
func (s *stage) appendPoison(t *testing.T, stream string) int64 {
	t.Helper()
	s.subscriber.Checker.Park(stream) // it comes later than its partition
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := make([]outbox.Event, 1+behind)
	for i := range events {
		events[i] = outbox.Event{ID: uuid.New(), StreamID: stream, Type: "poisoned", Payload: []byte(`{}`)}
	}
	events[0].Payload = fmt.Appendf(nil, `{"filling":"%s"}`, strings.Repeat("x", 2*brokerPayload))
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var appended []outbox.Appended
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) (err error) {
		appended, err = producer.AppendTx(ctx, tx, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]ledger.Entry, len(events))
	for i, a := range appended {
		entries[i] = ledger.Entry{
			EventID: a.EventID, Stream: stream, Version: a.StreamVersion, Sequence: a.Sequence, Partition: a.Partition,
			BodyHash: ledger.HashBody([]byte(`{}`)), // as it will be when it is cured
		}
	}
	s.Ledger.Committed(entries, time.Now())
	return appended[0].Sequence
}
