package inbox_test

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The leader of the stream is killed again and again, and with it what readers have asked it for.
func TestReadersOnThreeNodes(t *testing.T) {
	t.Parallel()
	const events, kills = 12_000, 3
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: 3})
	brokers.Server.Stream(t, 3)
	url := pgtest.URL(t)
	pool := pgtest.Pool(t, url)
	prepare(t, pool)
	tallyTable(t, pool)
	w := publish(t, brokers.Server.JetStream(t), events, 300, 5)
	f := &fleet{t: t, settings: readerSettings{Database: url, NATS: brokers.Server.URL(), Lanes: 8, Batch: 50, TTL: time.Second}}
	t.Cleanup(func() { f.explain(pool) })
	f.start()
	f.start()
	for n := range kills {
		waitFor(t, pool, `SELECT coalesce(sum(events), 0) >= $1 FROM tally`, (n+1)*events/(kills+1))
		leader := brokers.Leader(t)
		brokers.Kill(t, leader)
		brokers.Restart(t, leader)
		brokers.WaitCurrent(t)
	}
	waitFor(t, pool, `SELECT coalesce(sum(events), 0) >= $1 FROM tally`, events)
	for len(f.running) > 0 {
		f.end(0, syscall.SIGTERM)
	}
	w.verify(t, pool)
}

// deaf is a JetStream whose first consumer hears nothing, as a client may be left after a change of leaders (nats.go#2063):
// no error, nothing delivered.
type deaf struct {
	jetstream.JetStream

	made atomic.Int32
}

// CreateConsumer makes the consumer.
func (d *deaf) CreateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if d.made.Add(1) == 1 {
		c.FilterSubject = "events.nobody"
	}
	return d.JetStream.CreateConsumer(ctx, stream, c)
}

func TestAConsumerThatStandsStillIsLeft(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.publish(t, event("s", 1))
	js := &deaf{JetStream: r.js}
	r.js = js
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1}) || r.metric(t, "inbox_standstills_total") != 1 {
		t.Errorf("effects are %v, it stood still %g times", got, r.metric(t, "inbox_standstills_total"))
	}
}
