package pairs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// consumer is an inbox consumer with a database of its own, on a server that no operation kills. Its effects are judged in every pair.
type consumer struct {
	pool  *pgxpool.Pool
	aways int // how many want it away
	stop  func(t *testing.T)
	// unread are events that a stream lost before somebody read them, or before what was read was forgotten.
	unread map[uuid.UUID]bool
}

// readers counts the processes of consumers.
const readers = 2

// remembered are the tables that a failover of the consumer's database takes back.
func remembered() []string {
	return []string{"inbox_consumers", "inbox_lanes", "inbox_readers", "inbox_streams", "inbox_records", "inbox_parked", "effects"}
}

func newConsumer(t *testing.T) *consumer {
	t.Helper()
	c := &consumer{pool: pgtest.Pool(t, pgtest.URL(t)), unread: map[uuid.UUID]bool{}}
	err := inbox.Migrate(t.Context(), c.pool, "public")
	if err == nil {
		_, err = c.pool.Exec(t.Context(), `CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, stream text, version bigint, event_id uuid)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// consume starts the readers.
func (s *stage) consume(t *testing.T) {
	t.Helper()
	c := s.consumer
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range readers {
		box, err := inbox.New(c.pool, inbox.Config{Name: "pair", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		reads, err := inbox.NewConsumer(box, s.NATS.JetStream(t), effect, inbox.ConsumerConfig{
			Lanes: 4, LeaseTTL: 2 * time.Second, Interval: 100 * time.Millisecond, QuietTime: 500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { // it is started where stream and database are there, and waits for them later
			if err := reads.Run(ctx); err != nil {
				t.Errorf("a reader: %v", err)
			}
		})
	}
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	c.stop = func(t *testing.T) { t.Helper(); stop() }
}

func effect(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	_, err := tx.Exec(ctx, `INSERT INTO effects (stream, version, event_id) VALUES ($1, $2, $3)`, m.Stream, m.Version, m.EventID)
	return nil, err
}

// away has nobody read while it lasts.
func away(s *stage, _ int) act {
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			if s.consumer.aways++; s.consumer.aways == 1 {
				s.consumer.stop(t)
			}
		},
		finish: func(t *testing.T) {
			t.Helper()
			if s.consumer.aways--; s.consumer.aways == 0 {
				s.consume(t)
			}
		},
	}
}

// consumerForgets takes the consumer's database back to what it was when this began, while the readers go on.
func consumerForgets(s *stage, n int) act {
	c := s.consumer
	copyOf := func(table string) string { return fmt.Sprintf("%s_before_%d", table, n) }
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			c.together(t, func(table string) string { return `CREATE TABLE ` + copyOf(table) + ` AS TABLE ` + table })
		},
		end: func(t *testing.T) {
			t.Helper()
			s.quietly(t, func() {}) // there is something to forget
			c.together(t, func(table string) string {
				return `DELETE FROM ` + table + `; INSERT INTO ` + table + ` OVERRIDING SYSTEM VALUE TABLE ` + copyOf(table)
			})
			for _, tape := range s.tapes { // it comes again only where workers heal
				c.miss(t, tape)
			}
		},
	}
}

// together runs a statement for each table, all in one transaction.
func (c *consumer) together(t *testing.T, statement func(table string) string) {
	t.Helper()
	clustertest.Until(t, "the consumer's tables are changed together", func(ctx context.Context) (bool, error) {
		err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			for _, table := range remembered() {
				if _, err := tx.Exec(ctx, `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
					return err
				}
			}
			for _, table := range remembered() {
				if _, err := tx.Exec(ctx, statement(table)); err != nil {
					return err
				}
			}
			return nil
		})
		if failed, is := errors.AsType[*pgconn.PgError](err); is && failed.Code == "40P01" {
			return false, nil // readers take the tables in other orders
		}
		return err == nil, err
	}, nil)
}

// miss notes what the consumer has not done of a tape that the stream holds no more.
func (c *consumer) miss(t *testing.T, tape []ledger.Message) {
	t.Helper()
	undone, err := c.undone(t.Context(), tape)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range undone {
		c.unread[m.EventID] = true
	}
}

// done counts the effects of each event.
func (c *consumer) done(ctx context.Context) (map[uuid.UUID]int, error) {
	rows, _ := c.pool.Query(ctx, `SELECT event_id, count(*) FROM effects GROUP BY 1`)
	done := map[uuid.UUID]int{}
	var id uuid.UUID
	var n int
	_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { done[id] = n; return nil })
	return done, err
}

// undone are the events of a tape without an effect.
func (c *consumer) undone(ctx context.Context, tape []ledger.Message) (undone []ledger.Message, err error) {
	done, err := c.done(ctx)
	for _, m := range tape {
		if done[m.EventID] == 0 {
			undone = append(undone, m)
		}
	}
	return undone, err
}

// catchUp waits until the consumer has done all of a tape.
func (s *stage) catchUp(t *testing.T, tape []ledger.Message) {
	t.Helper()
	var undone []ledger.Message
	clustertest.Until(t, "the consumer has every effect", func(ctx context.Context) (done bool, err error) {
		undone, err = s.consumer.undone(ctx, tape)
		return err == nil && len(undone) == 0, err
	}, func() string {
		return fmt.Sprintf("%d of %d are missing, such as %+v", len(undone), len(tape), undone[:min(len(undone), 3)])
	})
}

// judgeEffects wants each event's effect once, and those of each stream in its order.
func (s *stage) judgeEffects(t *testing.T) {
	t.Helper()
	s.catchUp(t, s.tape(t))
	stored := map[uuid.UUID]bool{}
	for _, m := range s.all(t) {
		stored[m.EventID] = true
	}
	done, err := s.consumer.done(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range done {
		if n > 1 || !stored[id] {
			t.Errorf("event %s has %d effects; it was stored: %t", id, n, stored[id])
		}
	}
	for id := range stored {
		if done[id] == 0 && !s.consumer.unread[id] {
			t.Errorf("event %s was stored, and has no effect", id)
		}
	}
	var reversed, parked int
	err = s.consumer.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE version <= before), (SELECT count(*) FROM inbox_parked)
		FROM (SELECT version, lag(version) OVER (PARTITION BY stream ORDER BY n) AS before FROM effects) AS e`).Scan(&reversed, &parked)
	if err != nil {
		t.Fatal(err)
	}
	if reversed > 0 || parked > 0 {
		t.Errorf("%d effects are out of their stream's order, %d messages are parked", reversed, parked)
	}
}
