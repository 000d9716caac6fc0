package pairs_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

const (
	// filledRows are there before the capture: three pages of a backfill.
	filledRows = 600
	// lockedRow stops the backfill in its second page. Writers change rows before it.
	lockedRow = 400
)

// filled is a captured table whose rows are told, by a process that is killed whenever it must be quiet.
type filled struct {
	captured
	backfill *clustertest.Process
	seen     int64 // the last event of a row that the ledger knows
}

// backfills has each row of a table told once and before its changes.
func backfills(s *stage, n int) act {
	f := &filled{captured: captured{application: application{table: fmt.Sprintf("filled_%d", n)}, rows: lockedRow}}
	f.crew = crew{
		size: 2, work: f.transaction,
		begin: func(t *testing.T) { t.Helper(); f.launch(t, s) },
		end:   func(t *testing.T) { t.Helper(); f.kill(t, s) },
	}
	var locker *pgx.Conn
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			s.exec(t, `CREATE TABLE `+f.table+` (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)`)
			s.exec(t, `INSERT INTO `+f.table+` SELECT generate_series(0, $1 - 1)`, filledRows)
			locker = f.lock(t, s)
			s.employ(t, &f.crew, 20)
			s.WaitCount(t, 1, `SELECT count(*) WHERE EXISTS (SELECT FROM events WHERE stream_id LIKE $1 AND event_type LIKE '%.read')`, f.streams())
		},
		end: func(t *testing.T) {
			t.Helper()
			_ = locker.Close(context.WithoutCancel(t.Context()))
			if code := f.backfill.Exit(t); code != 0 {
				t.Errorf("the backfill ended with status %d: %s", code, f.backfill.Stderr())
			}
			s.dismiss(t, &f.crew)
			f.wantAsTold(t, s)
			if wrong := s.Count(t, `SELECT count(*) FROM (SELECT FROM events WHERE stream_id LIKE $1 AND event_type LIKE '%.read'
				GROUP BY stream_id HAVING count(*) > 1 OR min(stream_version) > 1) AS r`, f.streams()); wrong > 0 {
				t.Errorf("%d rows of %s were told twice, or behind a change", wrong, f.table)
			}
			s.operate(t, "capture", "drop", "--table="+f.table)
		},
	}
}

func (f *filled) streams() string { return "public." + f.table + ":%" }

// lock holds the row until the connection ends.
func (f *filled) lock(t *testing.T, s *stage) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(ctx, fmt.Sprintf(`BEGIN; SELECT FROM %s WHERE id = %d FOR UPDATE`, f.table, lockedRow)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// launch begins the backfill, or goes on with it.
func (f *filled) launch(t *testing.T, s *stage) {
	t.Helper()
	f.backfill = clustertest.Launch(t, "backfill", s.Environment(), "capture", "--table="+f.table, "--backfill")
}

// kill ends it in the middle of whatever it does, and tells the ledger of the rows that it told.
func (f *filled) kill(t *testing.T, s *stage) {
	t.Helper()
	select {
	case <-f.backfill.Ended():
	default:
		f.backfill.Signal(t, syscall.SIGKILL)
		f.backfill.Exit(t)
	}
	s.WaitCount(t, 0, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrider capture' AND datname = current_database()`)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clustertest.Patience)
	defer cancel()
	s.imported(ctx, t, `e.sequence > $1 AND e.stream_id LIKE $2 AND e.event_type LIKE '%.read'`, f.seen, f.streams())
	if err := s.Pool.QueryRow(ctx, `SELECT coalesce(max(sequence), 0) FROM events`).Scan(&f.seen); err != nil {
		t.Fatal(err)
	}
}
