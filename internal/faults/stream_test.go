package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/outbox"
)

// A stream that was deleted and made anew, or purged, has lost what it acknowledged: all of it is published again, also
// for partitions in which nothing happens any more.
func TestStreamIsEmptied(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, empty := range map[string]func(*testing.T, *natstest.Server){ //nolint:paralleltest // clusters run one at a time
		"purged": func(t *testing.T, server *natstest.Server) {
			t.Helper()
			stream, err := server.JetStream(t).Stream(t.Context(), natstest.StreamName)
			if err == nil {
				err = stream.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"made anew at once": func(t *testing.T, server *natstest.Server) { t.Helper(); makeAnew(t, server, 0) },
		"made anew later":   func(t *testing.T, server *natstest.Server) { t.Helper(); makeAnew(t, server, ttl) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "made anew at once" {
				slow.Test(t)
			}
			c := clustertest.New(t, clustertest.Config{Flags: shortTTL()})
			quiet(t, c, 200) // before the load, so that these lie at the stream's beginning
			s := under(t, c, setting{})
			s.subscriber.WaitReceived(t, 1000)
			empty(t, s.NATS)
			s.load.WaitCommitted(t, 1000)
			s.Drain(t)
			s.waitHealed(t)
			s.wantStreamAsTable(t)
			s.wantOrderAgain(t)
			s.wantNothingFailed(t)
			s.wantWorking(t)
			s.report(t, 1)
		})
	}
}

// wantOrderAgain wants who reads the stream from its beginning to find all that was committed, once and in order.
func (s *stage) wantOrderAgain(t *testing.T) {
	t.Helper()
	reader := s.Subscribe(t, nil)
	reader.WaitEnd(t)
	report := reader.Checker.Report() // which calls the quiet events phantoms: nobody declared them
	if report.Lost+report.Reordered+report.Duplicates+report.Altered+report.VersionGaps+report.EpochFaults+report.LedgerFaults != 0 {
		t.Errorf("the ledger's checker found faults in what came again: %s", report)
	}
}

func makeAnew(t *testing.T, server *natstest.Server, gone time.Duration) {
	t.Helper()
	if err := server.JetStream(t).DeleteStream(t.Context(), natstest.StreamName); err != nil {
		t.Fatal(err)
	}
	last(t.Context(), gone)
	server.Stream(t, 1) // asks again while the server still removes the files of the old one
}

// quiet publishes events of streams that never get another, so that every partition has some.
func quiet(t *testing.T, c *clustertest.Cluster, streams int) {
	t.Helper()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
		events := make([]outbox.Event, streams)
		for i := range events {
			events[i] = outbox.Event{StreamID: fmt.Sprintf("quiet-%d", i), Type: "quiet", Payload: []byte(`{}`)}
		}
		_, err := producer.AppendTx(t.Context(), tx, events...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitHealed waits until the stream holds as many events as the table.
func (s *stage) waitHealed(t *testing.T) {
	t.Helper()
	js := s.NATS.JetStream(t)
	events := s.Count(t, `SELECT count(*) FROM events`)
	held := uint64(0)
	clustertest.Until(t, "every event is in the stream again", func(ctx context.Context) (bool, error) {
		stream, err := js.Stream(ctx, natstest.StreamName)
		if err != nil {
			return false, err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter("events.>"))
		if err != nil {
			return false, err
		}
		held = 0
		for _, n := range info.State.Subjects {
			held += n
		}
		return held >= uint64(events), nil // a count
	}, func() string { return fmt.Sprintf("it holds %d of %d", held, events) })
}

// wantWorking wants a status that shows all workers active and all partitions owned.
func (s *stage) wantWorking(t *testing.T) {
	t.Helper()
	status := clustertest.Launch(t, "status", s.Environment(), "status", "--json")
	if status.Exit(t) != 0 {
		t.Fatalf("status: %s", status.Stderr())
	}
	var body struct {
		Pending, Failed, Blocked, Dead int
		Workers                        struct{ Active int }
		Partitions                     struct{ Owned int }
	}
	if err := json.Unmarshal([]byte(status.Stdout()), &body); err != nil {
		t.Fatalf("status: %v: %s", err, status.Stdout())
	}
	if body.Workers.Active != len(s.workers) || body.Partitions.Owned != s.Partitions() || body.Pending+body.Failed+body.Blocked+body.Dead != 0 {
		t.Errorf("status: %s", strings.TrimSpace(status.Stdout()))
	}
}

// A full stream refuses new messages: delivery waits for room, and nobody is blamed.
func TestStreamIsFull(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			if nodes > 1 {
				slow.Test(t)
			}
			fullStream(t, nodes)
		})
	}
}

func fullStream(t *testing.T, nodes int) {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	stream := brokers.Server.Stream(t, nodes, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 })
	c := clustertest.New(t, clustertest.Config{NATS: brokers.Server, NoStream: true, Flags: shortTTL()})
	s := under(t, c, setting{})
	for _, w := range s.workers {
		w.WaitLog(t, "maximum bytes exceeded")
	}
	s.load.WaitCommitted(t, 2000)
	s.wantUntouched(t)
	received := s.subscriber.Messages()
	last(t.Context(), ttl)
	if more := s.subscriber.Messages() - received; more > 100 {
		t.Errorf("%d events were published into a full stream", more)
	}
	config := stream.CachedInfo().Config
	config.MaxBytes = -1
	edit(t, s.NATS, config)
	s.subscriber.WaitReceived(t, 2000)
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, 1)
}

// A stream that keeps no more than consumers want drops what they have, as one does whose messages expire. Workers name that and
// publish nothing meanwhile; once it keeps everything again they go on, and no consumer lacks anything.
func TestStreamKeepsByInterest(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	s := begin(t, setting{Config: clustertest.Config{Flags: shortTTL()}})
	s.subscriber.WaitReceived(t, 1000)
	stream, err := s.NATS.JetStream(t).Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	limits := stream.CachedInfo().Config
	interest := limits
	interest.Retention = jetstream.InterestPolicy
	edit(t, s.NATS, interest)
	for _, w := range s.workers {
		w.WaitLog(t, "retention")
	}
	received := s.subscriber.Messages()
	s.load.WaitCommitted(t, 1000)
	if more := s.subscriber.Messages() - received; more > 100 {
		t.Errorf("%d events were published while the stream kept by interest", more)
	}
	edit(t, s.NATS, limits)
	s.load.WaitCommitted(t, 1000)
	s.Drain(t)
	s.subscriber.WaitEnd(t)
	if report := s.subscriber.Checker.Report(); report.Lost+report.Altered+report.Phantoms > 0 {
		t.Errorf("the subscriber lacks events: %s", report)
	} else {
		t.Log(report)
	}
	s.wantNothingFailed(t)
	s.report(t, 1)
}
