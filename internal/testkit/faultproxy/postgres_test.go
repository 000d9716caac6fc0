package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// table is a database with a table of ids, directly and by way of a proxy.
type table struct {
	proxy  *faultproxy.Postgres
	direct *pgxpool.Pool
	conn   *pgx.Conn // by way of the proxy
}

func newTable(t *testing.T) *table {
	t.Helper()
	address := pgtest.URL(t)
	b := &table{direct: pgtest.Pool(t, address), proxy: faultproxy.StartPostgres(t, address)}
	_, err := b.direct.Exec(deadline(t), `CREATE TABLE letters (id int PRIMARY KEY, twin int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	if err != nil {
		t.Fatal(err)
	}
	b.conn = b.connect(t)
	return b
}

func (b *table) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(deadline(t), b.proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // it may be broken
	return conn
}

// rows counts what is committed. It waits for transactions under way, which hold what it asks for.
func (b *table) rows(t *testing.T) (n int) {
	t.Helper()
	err := pgx.BeginFunc(deadline(t), b.direct, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE letters IN SHARE MODE"); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "SELECT count(*) FROM letters").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const insert = "INSERT INTO letters (id) VALUES ($1)"

// commitKinds are the ways in which a client commits the letter 1.
var commitKinds = map[string]func(ctx context.Context, conn *pgx.Conn) error{
	"explicit": func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, 1)
			return err
		})
	},
	"simple": func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO letters (id) VALUES (1)")
		return err
	},
	"several in one query": func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "BEGIN; INSERT INTO letters (id) VALUES (1); SELECT ';'; COMMIT; SELECT 1")
		return err
	},
	"prepared before": func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, insert, 1)
		return err
	},
	"unnamed statement": func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, insert, pgx.QueryExecModeExec, 1)
		return err
	},
	"batch": func(ctx context.Context, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1")
		batch.Queue(insert, 1)
		batch.Queue("SELECT $1::int", 1)
		return conn.SendBatch(ctx, batch).Close()
	},
	"extended COMMIT": func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, insert, 1); err != nil {
			return err
		}
		return conn.PgConn().ExecParams(ctx, "-- the end\ncommit", nil, nil, nil, nil).Read().Err
	},
	"pipeline with COMMIT": func(ctx context.Context, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		for _, sql := range []string{"BEGIN", "INSERT INTO letters (id) VALUES (1)", "COMMIT", "SELECT 1"} {
			batch.Queue(sql)
		}
		return conn.SendBatch(ctx, batch).Close()
	},
	"copy": func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"letters"}, []string{"id"}, pgx.CopyFromRows([][]any{{1}}))
		return err
	},
}

func TestCutAtCommit(t *testing.T) {
	t.Parallel()
	for name, commit := range commitKinds {
		for point, want := range map[faultproxy.Point]int{faultproxy.BeforeServer: 0, faultproxy.AfterServer: 1} {
			t.Run(fmt.Sprintf("%s/%d", name, point), func(t *testing.T) {
				t.Parallel()
				b := newTable(t)
				// What comes before does not count: reading, another table, a rollback, and preparing.
				for _, sql := range []string{"SELECT 1", "CREATE TABLE others (id int)", "BEGIN", "TABLE letters", "ROLLBACK"} {
					if _, err := b.conn.Exec(deadline(t), sql); err != nil {
						t.Fatal(err)
					}
				}
				trigger := b.proxy.CutAtCommit(point, faultproxy.Mentions("LETTERS"))
				if _, err := b.conn.Prepare(deadline(t), "later", insert); err != nil {
					t.Fatal(err)
				}
				err := commit(deadline(t), b.conn)
				var answered *pgconn.PgError
				if err == nil || errors.As(err, &answered) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the commit returned %v", err)
				}
				struck(t, trigger.Fired())
				if n := b.rows(t); n != want {
					t.Errorf("%d rows are there, want %d", n, want)
				}
				if trigger.Stop() {
					t.Error("a trigger that has fired could be stopped")
				}
				next := b.connect(t)
				if _, err := next.Exec(deadline(t), insert, 2); err != nil {
					t.Errorf("the next connection was hit, too: %v", err)
				}
				c := b.proxy.Counters()
				if c.CommitsBefore+c.CommitsAfter != 1 || int(c.CommitsAfter) != want {
					t.Errorf("counted %s", c)
				}
			})
		}
	}
}

// A commit that the server answers with an error is no commit: the answer passes and the trigger waits on.
func TestFailedCommitsDoNotFire(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	before := b.proxy.CutAtCommit(faultproxy.BeforeServer, faultproxy.Mentions("nothing"))
	trigger := b.proxy.CutAtCommit(faultproxy.AfterServer, faultproxy.Mentions("letters"))
	var answered *pgconn.PgError

	err := pgx.BeginFunc(deadline(t), b.conn, func(tx pgx.Tx) error { // breaks a deferred constraint
		_, err := tx.Exec(t.Context(), "INSERT INTO letters VALUES (1, 7), (2, 7)")
		return err
	})
	if !errors.As(err, &answered) {
		t.Fatalf("a commit that fails returned %v", err)
	}
	if _, err := b.conn.Exec(deadline(t), "INSERT INTO letters VALUES ($1, $2)", 1, "no number"); err == nil {
		t.Fatal("a wrong argument was taken")
	}
	if _, err := b.conn.Exec(deadline(t), "INSERT INTO letters VALUES (3), (3)"); !errors.As(err, &answered) {
		t.Fatalf("an insert that fails returned %v", err)
	}
	if _, err := b.conn.Exec(deadline(t), "BEGIN; COMMIT; INSERT INTO letters VALUES (3), (3)"); !errors.As(err, &answered) {
		t.Fatalf("an insert that fails behind a COMMIT returned %v", err)
	}
	if _, err := b.conn.Exec(deadline(t), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.conn.Exec(deadline(t), "SELECT nothing FROM letters"); !errors.As(err, &answered) {
		t.Fatalf("a query that fails returned %v", err)
	}
	tag, err := b.conn.Exec(deadline(t), "COMMIT")
	if err != nil || tag.String() != "ROLLBACK" {
		t.Fatalf("COMMIT of a failed transaction returned %q and %v", tag, err)
	}
	select {
	case <-trigger.Fired():
		t.Fatal("it fired")
	case <-before.Fired():
		t.Fatal("it fired before a rollback")
	default:
	}
	if !before.Stop() {
		t.Error("the other trigger could not be stopped")
	}
	if _, err = b.conn.Exec(deadline(t), insert, 4); err == nil || errors.As(err, &answered) {
		t.Errorf("the commit returned %v", err)
	}
	struck(t, trigger.Fired())
	if n := b.rows(t); n != 1 {
		t.Errorf("%d rows are there, want 1", n)
	}
}

// When the connection ends between the commit and its answer, the trigger is free for the next.
func TestTriggerSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	trigger := b.proxy.CutAtCommit(faultproxy.AfterServer, faultproxy.Mentions("letters"))
	block, err := b.direct.Begin(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := block.Exec(deadline(t), "LOCK TABLE letters"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		failed <- commitKinds["simple"](deadline(t), b.conn)
	}()
	eventually(t, "the insert waits", func() (waits bool) {
		err := b.direct.QueryRow(deadline(t), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
			AND relation = 'letters'::regclass)`).Scan(&waits)
		return err == nil && waits
	})
	b.proxy.Cut()
	if err := <-failed; err == nil {
		t.Error("the cut was not noticed")
	}
	if err := block.Rollback(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connect(t).Exec(deadline(t), insert, 2); err == nil {
		t.Error("the next commit was answered")
	}
	struck(t, trigger.Fired())
}

func TestTransactionsPassUnharmed(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	trigger := b.proxy.CutAtCommit(faultproxy.BeforeServer, faultproxy.Mentions("nobody says this"))
	for i, name := range []string{"simple", "batch", "copy", "explicit", "extended COMMIT", "several in one query"} {
		if err := commitKinds[name](deadline(t), b.conn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.conn.Exec(deadline(t), "UPDATE letters SET id = $1 WHERE id = 1", 100+i); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 8<<20)
	var got string
	if err := b.conn.QueryRow(deadline(t), "SELECT $1::text", long).Scan(&got); err != nil || got != long {
		t.Errorf("a long text came back with %d bytes and %v", len(got), err)
	}
	ctx, cancel := context.WithCancel(deadline(t))
	slow := make(chan error, 1)
	go func() { _, err := b.conn.Exec(ctx, "SELECT pg_sleep(60)"); slow <- err }()
	cancel()
	if err := <-slow; err == nil {
		t.Error("a cancelled query ended without an error")
	}
	if !trigger.Stop() {
		t.Error("the trigger was claimed")
	}
}

func TestEncryptionIsAskedForInVain(t *testing.T) {
	t.Parallel()
	b := newTable(t)
	conn, err := pgx.Connect(deadline(t), strings.Replace(b.proxy.URL(), "sslmode=disable", "sslmode=prefer", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	trigger := b.proxy.CutAtCommit(faultproxy.AfterServer, nil)
	if _, err := conn.Exec(deadline(t), insert, 1); err == nil {
		t.Error("the commit was answered")
	}
	struck(t, trigger.Fired())
	if n := b.rows(t); n != 1 {
		t.Errorf("%d rows are there, want 1", n)
	}
}
