package inbox_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
)

// A server that lost power comes back without the end of its stream, and gives the sequences of what it lost to other
// messages.
func TestAStreamThatLostItsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		running  bool
		more     int
		slow     time.Duration // a way to or from the server
		forgets  bool          // the database, that the reader went back
		recorded bool          // a worker's record lies where the reader goes back to
		trims    bool          // workers, their record in the place of the last message that was read
		hidden   bool          // by clients, the message that the reader goes back to
	}{
		"while nobody reads": {more: 1}, "while somebody reads": {running: true, more: 1},
		"and goes past it at once": {running: true, more: 10}, "far away": {more: 1, slow: 4 * quick().QuietTime},
		"and a failover forgets that":      {running: true, more: 1, forgets: true},
		"and workers remove their records": {more: 2, trims: true}, "behind a record": {more: 2, recorded: true},
		"behind what clients hide": {more: 1, hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			r := &reading{server: natstest.StartWith(t, localnats.Config{StoreDir: folder}), registry: prometheus.NewRegistry()}
			r.server.Stream(t, 1, func(c *jetstream.StreamConfig) { c.Storage = jetstream.FileStorage })
			r.js, r.bundle = r.server.JetStream(t), newBundle(t, func(c *inbox.Config) { c.HandlerTimeout = 100 * time.Millisecond }) // it bounds idle transactions
			node := r.server.Cluster(t)
			if c.recorded {
				if _, err := r.js.Publish(t.Context(), "outbox.fence.1", nil); err != nil {
					t.Fatal(err)
				}
			}
			r.publishKept(t, c.hidden)
			if err := node.StopNode(0); err != nil {
				t.Fatal(err)
			}
			backup := copied(t, folder)
			if err := node.RestartNode(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			r.js = r.server.JetStream(t) // the former one may still look for the server
			r.publish(t, event("lost", 1), event("lost", 2), event("lost", 3))
			end := r.run(t, quick(), apply)
			waitFor(t, r.pool, `SELECT count(*) = 6 FROM effects`)
			waitFor(t, r.pool, `SELECT min(position) >= 6 FROM inbox_lanes`)
			r.exec(t, `CREATE TABLE was_lanes AS TABLE inbox_lanes`)
			if !c.running {
				end()
			}
			if err := node.StopNode(0); err != nil {
				t.Fatal(err)
			}
			putBack(t, folder, backup)
			if err := node.RestartNode(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if c.forgets {
				waitFor(t, r.pool, `SELECT min(position) = 3 AND max(position) = 3 FROM inbox_lanes`)
				r.exec(t, `DELETE FROM inbox_lanes; INSERT INTO inbox_lanes TABLE was_lanes`)
				waitFor(t, r.pool, `SELECT bool_and(l.owner IS NOT NULL AND l.epoch > w.epoch) FROM inbox_lanes AS l JOIN was_lanes AS w USING (consumer, lane)`)
			}
			var messages []message.Message // they take the places of what was lost
			for n := range c.more {
				messages = append(messages, event(fmt.Sprint("new-", n), 1))
			}
			r.js = r.server.JetStream(t)
			r.publish(t, messages...)
			if c.trims {
				r.record(t, 6)
			}
			r.publish(t, event("lost", 3))
			if c.slow > 0 {
				r.js = slowly(t, r.server.URL(), c.slow)
			}
			if !c.running {
				end = r.run(t, quick(), apply)
			}
			waitFor(t, r.pool, `SELECT count(*) = $1 FROM effects`, 6+c.more)
			end()
		})
	}
}

// copied copies a folder.
func copied(t *testing.T, folder string) string {
	t.Helper()
	copied := t.TempDir() + "/stream"
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// putBack replaces a folder by its copy.
func putBack(t *testing.T, folder, backup string) {
	t.Helper()
	err := os.RemoveAll(folder)
	if err == nil {
		err = os.CopyFS(folder, os.DirFS(backup))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// record stores a record of a worker, which must get this sequence, and removes it.
func (r *reading) record(t *testing.T, sequence uint64) {
	t.Helper()
	ack, err := r.js.Publish(t.Context(), "outbox.fence.1", nil)
	if err != nil || ack.Sequence != sequence {
		t.Fatalf("the record is %v, %v; want sequence %d", ack, err, sequence)
	}
	stream, err := r.js.Stream(t.Context(), ack.Stream)
	if err == nil {
		err = stream.DeleteMsg(t.Context(), ack.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// publishKept publishes three messages; clients may keep the first one to themselves.
func (r *reading) publishKept(t *testing.T, hidden bool) {
	t.Helper()
	if hidden {
		r.publishHidden(t, event("kept", 1), "404")
	} else {
		r.publish(t, event("kept", 1))
	}
	r.publish(t, event("kept", 2), event("kept", 3))
}

// A message that was delivered and did not come is read again before what lies behind it.
func TestAMessageThatIsLostOnTheWay(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.publish(t, event("a", 1), event("b", 1))
	link, js := proxied(t, r.server.URL())
	r.js = js
	var came atomic.Int64
	link.DropMessages(func(m faultproxy.Message) bool { return strings.HasPrefix(m.Subject, "events.") && came.Add(1) == 1 })
	end := r.run(t, quick(), apply)
	defer end()
	waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
}

// slowly reaches a server by a slow link.
func slowly(t *testing.T, url string, latency time.Duration) jetstream.JetStream {
	t.Helper()
	link, js := proxied(t, url)
	link.Latency(faultproxy.Both, latency)
	return js
}

func proxied(t *testing.T, url string) (*faultproxy.NATS, jetstream.JetStream) {
	t.Helper()
	link := faultproxy.StartNATS(t, url)
	conn, err := nats.Connect(link.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return link, js
}

// A failover forgets the last of what a reader that lives through it has done: it is done again, before what lies behind it.
func TestWhatTheDatabaseForgotIsDoneAgain(t *testing.T) {
	t.Parallel()
	tables := []string{"inbox_lanes", "inbox_streams", "inbox_records", "effects"}
	for name, c := range map[string]struct {
		config inbox.ConsumerConfig
		last   int64 // version of the stream
	}{
		"the lane goes on":     {inbox.ConsumerConfig{Lanes: 1, LeaseTTL: time.Minute, Interval: 5 * time.Second}, 11},
		"the lane has nothing": {inbox.ConsumerConfig{Lanes: 1, LeaseTTL: time.Second, Interval: 20 * time.Millisecond}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			end := r.run(t, c.config, apply)
			defer end()
			deal := func(from, to int64) {
				for version := from; version <= to; version++ {
					r.publish(t, event("s", version))
				}
				waitFor(t, r.pool, `SELECT count(*) = $1 AND (SELECT min(position) FROM inbox_lanes) = $1 FROM effects`, to)
			}
			deal(1, 5)
			for _, table := range tables {
				r.exec(t, `CREATE TABLE was_`+table+` AS TABLE `+table)
			}
			deal(6, 10)
			err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
				for _, table := range tables {
					if _, err := tx.Exec(t.Context(), `DELETE FROM `+table+`; INSERT INTO `+table+` OVERRIDING SYSTEM VALUE TABLE was_`+table); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			deal(11, c.last)
			if got := r.effects(t, "s"); len(got) != int(c.last) || !slices.IsSorted(got) {
				t.Errorf("the effects are %v, want 1 to %d", got, c.last)
			}
		})
	}
}

// A failover forgets who took lanes: the table names readers that do not know of it, and have their share already.
func TestLanesThatNobodyKnowsAreRead(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	config := quick()
	config.LeaseTTL, config.Interval = 2*time.Second, 50*time.Millisecond
	defer r.run(t, config, apply)()
	waitFor(t, r.pool, `SELECT count(owner) = 4 AND count(DISTINCT owner) = 1 FROM inbox_lanes`)
	r.exec(t, `CREATE TABLE was_lanes AS TABLE inbox_lanes`)
	defer r.run(t, config, apply)()
	waitFor(t, r.pool, `SELECT count(owner) = 4 AND count(DISTINCT owner) = 2 FROM inbox_lanes`)
	r.exec(t, `UPDATE inbox_lanes AS l SET owner = w.owner, epoch = w.epoch, lease_until = clock_timestamp() + interval '1 hour'
		FROM was_lanes AS w WHERE w.lane = l.lane`)
	var messages []message.Message
	for n := range 40 {
		messages = append(messages, event(fmt.Sprint("s-", n), 1))
	}
	r.publish(t, messages...)
	waitFor(t, r.pool, `SELECT count(*) = 40 FROM effects`)
	r.exec(t, `DELETE FROM inbox_lanes; DELETE FROM inbox_consumers`) // a failover to before the consumer began
	r.publish(t, event("s-0", 2))
	waitFor(t, r.pool, `SELECT count(*) = 41 FROM effects`)
}
