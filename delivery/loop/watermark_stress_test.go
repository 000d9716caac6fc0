package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/message"
)

// stress is what disturbs the order in which sequences become visible.
type stress struct {
	writers, rows int
	seed          uint64
}

func TestStrictOrderUnderStress(t *testing.T) {
	t.Parallel()
	underStress(t, stress{writers: 8, rows: 4000, seed: 1})
}

// The promise's own measure: 25,000 rows and more, three seeds.
func TestStrictOrderUnderLongStress(t *testing.T) { //nolint:paralleltest // one at a time
	slow.Test(t)
	for seed := range uint64(3) { //nolint:paralleltest // one at a time
		t.Run(fmt.Sprintf("seed %d", seed+1), func(t *testing.T) {
			underStress(t, stress{writers: 8, rows: 27_000, seed: seed + 1})
		})
	}
}

// underStress produces with delays, rollbacks, savepoints, conflicting dedupe keys,
// prepared transactions and a slow trigger, while a relay delivers and other
// workers move the watermark, too. Nothing may be lost, and each partition's
// events must ascend.
func underStress(t *testing.T, s stress) {
	t.Helper()
	if text := os.Getenv("POSTRIDER_STRESS_ROWS"); text != "" {
		rows, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		s.rows = rows
	}
	const partitions = 16
	b := setup(t, partitions)
	b.exec(t, `CREATE FUNCTION slow_insert() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF random() < 0.05 THEN PERFORM pg_sleep(random() * 0.02); END IF; RETURN NEW; END $$`)
	b.exec(t, `CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION slow_insert()`)
	b.acquireAll(t, b.keeper)
	relay := b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond, SweepInterval: time.Hour})
	stopRelay := b.start(t, relay)

	ctx, stopOthers := context.WithCancel(t.Context())
	defer stopOthers()
	var others, writing sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.store.Advance(ctx, 1); err != nil && ctx.Err() == nil {
					t.Errorf("advance: %v", err)
					return
				}
			}
		})
	}
	var written atomic.Int64
	config := b.pool.Config()
	config.MaxConns = int32(s.writers) // a handful
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for n := range s.writers {
		w := writer{pool: pool, n: n, random: rand.New(rand.NewPCG(s.seed, uint64(n)))}
		writing.Go(func() {
			for written.Load() < int64(s.rows) && !t.Failed() {
				written.Add(int64(w.transaction(t)))
			}
		})
	}
	writing.Wait()
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	stopOthers()
	others.Wait()
	stopRelay()
	b.wantStrictOrder(t)
	if st := relay.Stats(); st.Late != 0 {
		t.Errorf("%d rows turned up below the cursor", st.Late)
	}
}

// wantStrictOrder compares the stream with the table: everything once, and each
// partition ascending.
func (b *bundle) wantStrictOrder(t *testing.T) {
	t.Helper()
	last, seen := map[string]int64{}, map[int64]bool{}
	disorder := 0
	b.eachEvent(t, func(m jetstream.Msg) {
		sequence, err := strconv.ParseInt(m.Headers().Get(message.HeaderSequence), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p := m.Headers().Get(message.HeaderPartition)
		if sequence <= last[p] {
			disorder++
		}
		if seen[sequence] {
			t.Errorf("sequence %d is stored twice", sequence)
		}
		last[p], seen[sequence] = max(last[p], sequence), true
	})
	rows, err := b.pool.Query(t.Context(), `SELECT sequence FROM events WHERE NOT audit_only`)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, sequence := range committed {
		if !seen[sequence] {
			lost++
		}
	}
	t.Logf("%d committed, %d stored, %d lost, %d out of order", len(committed), len(seen), lost, disorder)
	if lost > 0 || disorder > 0 || len(seen) != len(committed) {
		t.Errorf("%d committed, %d stored, %d lost, %d out of order", len(committed), len(seen), lost, disorder)
	}
}

// eachEvent visits the events of the stream in stored order.
func (b *bundle) eachEvent(t *testing.T, visit func(jetstream.Msg)) {
	t.Helper()
	b.each(t, streams.DefaultStream, "events.>", visit)
}

func (b *bundle) each(t *testing.T, name, filter string, visit func(jetstream.Msg)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.NumPending {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		visit(m)
	}
}

// writer is one producer, with streams of its own so that it never waits for
// another but over a dedupe key.
type writer struct {
	pool   *pgxpool.Pool
	n      int
	random *rand.Rand
	done   int
}

// transaction writes one to five events and ends somehow; it returns how many are
// committed.
func (w *writer) transaction(t *testing.T) int {
	t.Helper()
	ctx := t.Context()
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		t.Errorf("writer %d: %v", w.n, err)
		return 0
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Errorf("writer %d: %v", w.n, err)
		return 0
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	events := 0
	for range 1 + w.random.IntN(5) {
		events += w.append(t, tx)
		if w.random.Float64() < 0.3 {
			w.exec(t, tx, fmt.Sprintf(`SELECT pg_sleep(%f)`, w.random.Float64()*0.02))
		}
	}
	w.done++
	name := fmt.Sprintf("stress-%d-%d", w.n, w.done)
	switch p := w.random.Float64(); {
	case p < 0.3:
		return 0 // rolled back
	case p < 0.4:
		w.exec(t, tx, `PREPARE TRANSACTION '`+name+`'`)
		if _, err := conn.Exec(ctx, fmt.Sprintf(`SELECT pg_sleep(%f)`, w.random.Float64()*0.02)); err != nil {
			t.Errorf("writer %d: %v", w.n, err)
		}
		end := "COMMIT"
		if w.random.Float64() < 0.3 {
			end, events = "ROLLBACK", 0
		}
		if _, err := conn.Exec(ctx, end+` PREPARED '`+name+`'`); err != nil {
			t.Errorf("writer %d: %v", w.n, err)
		}
		return events
	default:
		if err := tx.Commit(ctx); err != nil {
			t.Errorf("writer %d: %v", w.n, err)
		}
		return events
	}
}

// append adds one event, at times under a dedupe key that others want too, at
// times within a savepoint that is rolled back.
func (w *writer) append(t *testing.T, tx pgx.Tx) int {
	t.Helper()
	stream := fmt.Sprintf("w%d-%d", w.n, w.random.IntN(20))
	statement := fmt.Sprintf(`SELECT outbox_append('%s', 'thing.done', '{}')`, stream)
	if w.random.Float64() < 0.05 {
		statement = fmt.Sprintf(`SELECT outbox_append('%s', 'thing.done', '{}', dedupe_key => 'key-%d')`, stream, w.random.IntN(500))
	}
	if w.random.Float64() < 0.1 {
		w.exec(t, tx, `SAVEPOINT s`)
		w.exec(t, tx, statement)
		w.exec(t, tx, `ROLLBACK TO SAVEPOINT s`)
		return 0
	}
	w.exec(t, tx, statement)
	return 1
}

func (w *writer) exec(t *testing.T, tx pgx.Tx, statement string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), statement); err != nil {
		t.Errorf("writer %d: %s: %v", w.n, statement, err)
	}
}
