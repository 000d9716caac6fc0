package capture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox/capture"
	"github.com/postrider/postrider/worker"
)

var errBack = errors.New("rolled back on purpose")

// account is a row of the table under load, as its events tell it.
type account struct {
	ID      int   `json:"id"`
	Balance int64 `json:"balance"`
	Changes int   `json:"changes"`
}

// Under transactions of several writers to few rows, each change has one event, in the order of the row: what an event says was before is what
// the one before it said was then, and the last one says what the table holds.
func TestEachChangeUnderLoadHasItsEventInOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const rows, writers, rounds = 12, 6, 60
	l.run(t, `CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, changes int NOT NULL DEFAULT 0)`)
	l.capture(t, capture.Capture{Table: "accounts", Old: true})
	var changed atomic.Int64
	group, ctx := errgroup.WithContext(t.Context())
	for range writers {
		group.Go(func() error {
			for range rounds {
				var n int64
				err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
					first := rand.IntN(rows - 1)
					for _, id := range []int{first, first + 1 + rand.IntN(rows-1-first)} { // in one order: no deadlocks
						statement := `INSERT INTO accounts AS a VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = a.balance + $2, changes = a.changes + 1`
						if rand.IntN(8) == 0 {
							statement = `DELETE FROM accounts WHERE id = $1 AND $2 <> 0`
						}
						done, err := tx.Exec(ctx, statement, id, 1+rand.Int64N(1000))
						if err != nil {
							return err
						}
						n += done.RowsAffected()
					}
					if rand.IntN(5) == 0 {
						return errBack
					}
					return nil
				})
				switch {
				case err == nil:
					changed.Add(n)
				case !errors.Is(err, errBack):
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := one[int64](t, l, `SELECT count(*) FROM events`); n != changed.Load() {
		t.Errorf("%d events of %d changes", n, changed.Load())
	}
	wantChains(t, l)
	t.Logf("%d changes", changed.Load())
}

// wantChains follows each row through its events.
func wantChains(t *testing.T, l lab) {
	t.Helper()
	now := map[string]account{}
	found, err := l.Query(t.Context(), `SELECT stream_id, event_type, convert_from(payload, 'UTF8') FROM events ORDER BY sequence`)
	if err != nil {
		t.Fatal(err)
	}
	var stream, kind, payload string
	if _, err := pgx.ForEachRow(found, []any{&stream, &kind, &payload}, func() error {
		var change struct{ Old, New *account }
		if err := json.Unmarshal([]byte(payload), &change); err != nil {
			return err
		}
		before, there := now[stream]
		if there != (change.Old != nil) || there && *change.Old != before {
			t.Errorf("%s: %s %s comes after %+v", stream, kind, payload, before)
		}
		delete(now, stream)
		if change.New != nil {
			now[stream] = *change.New
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	rows, err := l.Query(t.Context(), `SELECT id, balance, changes FROM accounts`)
	if err != nil {
		t.Fatal(err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowToStructByPos[account])
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range held {
		if stream := fmt.Sprintf("public.accounts:%d", a.ID); now[stream] != a {
			t.Errorf("%s: the last event says %+v, the table %+v", stream, now[stream], a)
		}
	}
	if len(held) != len(now) {
		t.Errorf("the table holds %d rows, the events tell of %d", len(held), len(now))
	}
}

// producer writes to an outbox table as an application does that was made for Debezium.
type producer struct {
	mu        sync.Mutex
	committed map[string][]uuid.UUID // by stream
	rows      atomic.Int64
}

func (p *producer) note(stream string, ids ...uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed[stream] = append(p.committed[stream], ids...)
	p.rows.Add(int64(len(ids)))
}

// write commits rows of one aggregate until it is told to stop, and rolls every fifth transaction back.
func (p *producer) write(ctx context.Context, l lab, aggregate string, stop <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		ids := []uuid.UUID{uuid.New(), uuid.New()}
		err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
			for _, id := range ids {
				if _, err := tx.Exec(ctx, `INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES ($1, 'Order', $2, 'OrderChanged', $3)`,
					id, aggregate, map[string]int{"n": n}); err != nil {
					return err
				}
			}
			if n%5 == 4 {
				return errBack
			}
			return nil
		})
		if err == nil {
			p.note("Order:"+aggregate, ids...)
		} else if !errors.Is(err, errBack) {
			return err
		}
	}
}

// Ten thousand rows wait in a table as Debezium documents it, and its producers go on. A worker delivers each row that they committed once,
// and those of an aggregate in their order.
func TestADebeziumOutboxIsAdoptedUnderItsProducers(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	l := labAt(t, c.DatabaseURL, c.Pool)
	l.run(t, `CREATE TABLE outboxevent (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
		type varchar(255) NOT NULL, payload jsonb, created_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
	p := &producer{committed: map[string][]uuid.UUID{}}
	waiting, err := l.Query(t.Context(), `
		INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload)
		SELECT gen_random_uuid(), CASE WHEN n % 3 = 0 THEN 'Customer' ELSE 'Order' END, n % 400, 'Changed', jsonb_build_object('n', n) FROM generate_series(1, 10000) AS n
		RETURNING aggregatetype || ':' || aggregateid, id`)
	if err != nil {
		t.Fatal(err)
	}
	var stream string
	var id uuid.UUID
	if _, err := pgx.ForEachRow(waiting, []any{&stream, &id}, func() error { p.note(stream, id); return nil }); err != nil {
		t.Fatal(err)
	}

	stop := make(chan struct{})
	group, ctx := errgroup.WithContext(t.Context())
	for n := range 3 {
		group.Go(func() error { return p.write(ctx, l, fmt.Sprint(1000+n), stop) })
	}
	failed := ctx.Done()
	more := func(what string, goal int64) {
		clustertest.Until(t, what, func(context.Context) (bool, error) {
			select {
			case <-failed:
				return false, context.Canceled
			default:
				return p.rows.Load() >= goal, nil
			}
		}, nil)
	}
	more("producers write", 10_050)
	done := l.adopt(t, capture.Adoption{Table: "outboxevent", Preset: "debezium"})
	more("producers go on", p.rows.Load()+100)
	close(stop)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if done.Imported != done.Waiting || done.Imported < 10_000 {
		t.Errorf("%d of %d rows that waited were imported", done.Imported, done.Waiting)
	}
	if n := one[int64](t, l, `SELECT count(*) FROM events`); n != p.rows.Load() {
		t.Errorf("%d events of %d rows", n, p.rows.Load())
	}
	delivered := deliver(t, c, int(p.rows.Load()))
	for stream, ids := range p.committed {
		if !slices.Equal(delivered[stream], ids) {
			t.Errorf("%s: delivered %v\nwritten %v", stream, delivered[stream], ids)
			break
		}
	}
	t.Logf("%d rows waited, %d came afterwards", done.Waiting, p.rows.Load()-done.Waiting)
}

// deliver has a worker deliver so many events, and returns their ids by stream.
func deliver(t *testing.T, c *clustertest.Cluster, events int) map[string][]uuid.UUID {
	t.Helper()
	delivered := map[string][]uuid.UUID{}
	var mu sync.Mutex
	s := c.Subscribe(t, func(m ledger.Message) {
		mu.Lock()
		defer mu.Unlock()
		delivered[m.Stream] = append(delivered[m.Stream], m.EventID)
	})
	w, err := worker.New(t.Context(), worker.Config{DatabaseURL: c.DatabaseURL, NATSURL: c.NATS.URL(), Once: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.WaitReceived(t, events-s.Messages())
	if n := s.Messages(); n != events {
		t.Errorf("%d messages of %d events", n, events)
	}
	return delivered
}
