package pairs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// application is a table that a user's program writes to, and whose trigger appends.
type application struct {
	crew
	table string
}

// wantTold wants so many events of the table's streams.
func (a *application) wantTold(t *testing.T, s *stage, streams string, want int) {
	t.Helper()
	if got := s.Count(t, `SELECT count(*) FROM events WHERE stream_id LIKE $1`, streams); got != want {
		t.Errorf("%d events tell of %s, want %d", got, a.table, want)
	}
}

// captured is one whose rows are captured.
type captured struct {
	application
	rows    int          // that writers change
	changes atomic.Int64 // committed
}

// capturedRows is how many rows writers change.
const capturedRows = 12

// captures has each change of a table told once, in the order of its row, and none when it has ended.
func captures(s *stage, n int) act {
	c := &captured{application: application{table: fmt.Sprintf("captured_%d", n)}, rows: capturedRows}
	c.crew = crew{size: 2, work: c.transaction}
	streams := "public." + c.table + ":%"
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.exec(t, `CREATE TABLE `+c.table+` (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)`)
			s.operate(t, "capture", "--table="+c.table, "--old")
			s.employ(t, &c.crew, 20)
		},
		end: func(t *testing.T) {
			t.Helper()
			done := c.count.Load()
			clustertest.Until(t, "writers go on", func(context.Context) (bool, error) { return c.count.Load() >= done+20, nil }, nil)
			s.dismiss(t, &c.crew)
			told := int(c.changes.Load())
			c.wantTold(t, s, streams, told)
			c.wantAsTold(t, s)
			s.operate(t, "capture", "drop", "--table="+c.table)
			s.exec(t, `INSERT INTO `+c.table+` VALUES (-1)`)
			c.wantTold(t, s, streams, told)
		},
	}
}

// wantAsTold wants each row to be as its last event says.
func (c *captured) wantAsTold(t *testing.T, s *stage) {
	t.Helper()
	if wrong := s.Count(t, `SELECT count(*) FROM `+c.table+` AS r FULL JOIN
		(SELECT DISTINCT ON (stream_id) stream_id, (convert_from(payload, 'UTF8')::json -> 'new' ->> 'n')::int AS n
		   FROM events WHERE stream_id LIKE $1 ORDER BY stream_id, stream_version DESC) AS e ON e.stream_id = $2 || r.id
		WHERE r.n IS DISTINCT FROM e.n`, "public."+c.table+":%", "public."+c.table+":"); wrong > 0 {
		t.Errorf("%d rows of %s are not as their last events say", wrong, c.table)
	}
}

// transaction changes two rows, in one order, so that writers do not deadlock; a fifth is rolled back.
func (c *captured) transaction(running context.Context, s *stage, _, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(running), clustertest.Patience)
	defer cancel()
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var entries []ledger.Entry
	first := rand.IntN(c.rows - 1)
	for _, id := range []int{first, first + 1 + rand.IntN(c.rows-1-first)} {
		statement := `INSERT INTO ` + c.table + ` AS r VALUES ($1) ON CONFLICT (id) DO UPDATE SET n = r.n + 1`
		if rand.IntN(8) == 0 {
			statement = `DELETE FROM ` + c.table + ` WHERE id = $1`
		}
		done, err := tx.Exec(ctx, statement, id)
		if err != nil {
			return err
		}
		if done.RowsAffected() == 0 {
			continue
		}
		// The row is locked, so nobody else tells of it.
		one, err := s.appended(ctx, tx, `e.stream_id = $1 ORDER BY e.stream_version DESC LIMIT 1`, fmt.Sprintf("public.%s:%d", c.table, id))
		if err != nil {
			return err
		}
		entries = append(entries, one...)
	}
	commit := i%5 != 4
	if err = s.conclude(ctx, tx, entries, commit); err == nil && commit {
		c.changes.Add(int64(len(entries)))
	}
	return err
}

// adopted is one that was written for another relay.
type adopted struct {
	application
	// mu is held by those that commit, and by who looks what waits.
	mu      sync.RWMutex
	listing sync.Mutex
	waiting []uuid.UUID // rows that had no event when they were committed
	rows    atomic.Int64
}

// adoptedBefore is how many rows wait when the table is adopted, besides those that its writers add.
const adoptedBefore = 300

// adopts takes an outbox table over while producers write to it: each row has one event, before and after.
func adopts(s *stage, n int) act {
	a := &adopted{application: application{table: fmt.Sprintf("adopted_%d", n)}}
	a.crew = crew{size: 2, work: a.transaction}
	streams := a.table + ":%"
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.exec(t, `CREATE TABLE `+a.table+` (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb,
				created_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
			for range adoptedBefore {
				a.waiting = append(a.waiting, uuid.New())
			}
			s.exec(t, `INSERT INTO `+a.table+` (id, aggregatetype, aggregateid, type, payload)
				SELECT id, $2, at % 20, 'Changed', '{}' FROM unnest($1::uuid[]) WITH ORDINALITY AS r (id, at)`, a.waiting, a.table)
			a.rows.Add(adoptedBefore)
			s.employ(t, &a.crew, 10)
			s.operate(t, "adopt", "--table="+a.table, "--preset=debezium")
			a.imported(t, s)
		},
		end: func(t *testing.T) {
			t.Helper()
			done := a.count.Load()
			clustertest.Until(t, "writers go on", func(context.Context) (bool, error) { return a.count.Load() >= done+20, nil }, nil)
			s.dismiss(t, &a.crew)
			told := int(a.rows.Load())
			a.wantTold(t, s, streams, told)
			if n := s.Count(t, `SELECT count(*) FROM `+a.table+` AS r JOIN events AS e ON e.event_id = r.id AND e.stream_id = $1 || r.aggregateid`, a.table+":"); n != told {
				t.Errorf("%d rows of %s have their event, want %d", n, a.table, told)
			}
			s.operate(t, "adopt", "drop", "--table="+a.table)
			s.exec(t, `INSERT INTO `+a.table+` VALUES (gen_random_uuid(), $1, '1', 'Changed')`, a.table)
			a.wantTold(t, s, streams, told)
		},
	}
}

// imported tells the ledger of the rows that waited.
func (a *adopted) imported(t *testing.T, s *stage) {
	t.Helper()
	a.mu.Lock() // no commit is under way
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if n := s.imported(ctx, t, `e.event_id = ANY ($1)`, a.waiting); n != len(a.waiting) {
		t.Fatalf("%d of %d rows that waited were imported", n, len(a.waiting))
	}
}

// imported tells the ledger of events that another process appended.
func (s *stage) imported(ctx context.Context, t *testing.T, where string, args ...any) int {
	t.Helper()
	rows, _ := s.Pool.Query(ctx, `SELECT e.event_id, e.stream_id, e.stream_version, e.sequence, m.partition_key
		FROM events AS e JOIN outbox_messages AS m ON m.global_sequence = e.sequence WHERE `+where, args...)
	entries, err := pgx.CollectRows(rows, entryOf)
	if err != nil {
		t.Fatal(err)
	}
	s.Ledger.Committed(entries, time.Now())
	return len(entries)
}

// transaction writes two rows of one aggregate; a fifth is rolled back.
func (a *adopted) transaction(running context.Context, s *stage, n, i int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(running), clustertest.Patience)
	defer cancel()
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	for _, id := range ids {
		if _, err := tx.Exec(ctx, `INSERT INTO `+a.table+` (id, aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, 'Changed', '{}')`,
			id, a.table, fmt.Sprintf("%d-%d", n, i%4)); err != nil {
			return err
		}
	}
	entries, err := s.appended(ctx, tx, `e.event_id = ANY ($1)`, ids)
	if err != nil {
		return err
	}
	if len(entries) != 0 && len(entries) != len(ids) {
		return fmt.Errorf("%d events of %d rows", len(entries), len(ids))
	}
	commit := i%5 != 4
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := s.conclude(ctx, tx, entries, commit); err != nil || !commit {
		return err
	}
	a.rows.Add(int64(len(ids)))
	if len(entries) == 0 {
		a.listing.Lock()
		a.waiting = append(a.waiting, ids...)
		a.listing.Unlock()
	}
	return nil
}
