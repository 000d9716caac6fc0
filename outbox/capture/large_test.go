package capture_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/outbox/capture"
)

// many is more rows than the lock table of a server with defaults has room for.
const many = 100_000

// A statement of any size appends an event for each row: no lock is held for each of their streams.
func TestALargeStatementIsCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE plain (id int PRIMARY KEY, v int NOT NULL)`, `CREATE TABLE told (LIKE plain INCLUDING ALL)`,
		fmt.Sprintf(`INSERT INTO plain SELECT n, 0 FROM generate_series(1, %d) AS n`, many), `INSERT INTO told SELECT * FROM plain`,
		`CREATE TABLE quiet (LIKE plain INCLUDING ALL)`, `INSERT INTO quiet SELECT * FROM plain`)
	l.capture(t, capture.Capture{Table: "quiet", Operations: []string{"insert", "delete"}})
	l.capture(t, capture.Capture{Table: "told"})
	took := map[string]time.Duration{}
	for _, table := range []string{"plain", "told", "quiet"} {
		took[table] = l.worked(t, `UPDATE `+table+` SET v = v + 1`)
	}
	if n := one[int](t, l, `SELECT count(DISTINCT stream_id) FROM events WHERE event_type = 'told.updated' AND stream_version = 1`); n != many {
		t.Errorf("%d events of %d rows", n, many)
	}
	if n := one[int](t, l, `SELECT count(*) FROM outbox_ready`); n != many {
		t.Errorf("%d events are queued of %d", n, many)
	}
	if factor := took["told"].Seconds() / took["plain"].Seconds(); factor > 100 { // as docs/producers.md says
		t.Errorf("a captured table's update takes %.0f times as long", factor)
	}
	t.Logf("an update of %d rows took %s, %s where it is captured, and %s without update", many, took["plain"], took["told"], took["quiet"])
}

// worked is how long a processor works for a statement, which a busy machine does not stretch; 0 where the server's processes are not here.
func (l lab) worked(t *testing.T, statement string) time.Duration {
	t.Helper()
	conn, err := l.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	used := func() (ticks time.Duration) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", conn.Conn().PgConn().PID()))
		_, rest, is := strings.Cut(string(text), " (postgres) ")
		if err != nil || !is {
			return 0
		}
		for _, field := range strings.Fields(rest)[11:13] { // of user and system
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			ticks += time.Duration(n)
		}
		return ticks
	}
	before := used()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	return (used() - before) * 10 * time.Millisecond
}

func TestALargeStatementIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE outboxevent (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb, n serial)`)
	l.adopt(t, capture.Adoption{Table: "outboxevent", Preset: "debezium"})
	l.run(t, fmt.Sprintf(`INSERT INTO outboxevent (aggregatetype, aggregateid, type, payload) SELECT 'Order', n, 'Placed', '{}' FROM generate_series(1, %d) AS n`, many))
	if n := one[int](t, l, `SELECT count(*) FROM outbox_ready`); n != many {
		t.Errorf("%d events are queued of %d", n, many)
	}
}

// Rows that share a stream queue behind each other, whether or not a producer that is no trigger appends to it, too: no statement of the
// table's writers fails, and versions and sequences are in one order.
func TestWritersOfOneStreamQueue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE lines (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, of_order int NOT NULL)`)
	l.capture(t, capture.Capture{Table: "lines", Key: []string{"of_order"}})
	const writers, rounds = 6, 40
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			for range rounds {
				err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
					if w == 0 {
						return appended(ctx, tx)
					}
					_, err := tx.Exec(ctx, `INSERT INTO lines (of_order) SELECT 1 FROM generate_series(1, 3)`)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, want := one[int](t, l, `SELECT count(*) FROM events`), ((writers-1)*3+1)*rounds; got != want {
		t.Errorf("%d events, want %d", got, want)
	}
	if n := one[int](t, l, `SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY sequence) AS n, stream_version FROM events) AS e WHERE n <> stream_version`); n != 0 {
		t.Errorf("%d events have another version than their place", n)
	}
}

func appended(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT outbox_append('public.lines:1', 'noted', '{}')`)
	return err
}
