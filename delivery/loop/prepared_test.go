package loop_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/localpg"
)

// prepare ends the session's part in the transaction, and returns the name under
// which it goes on. The test's end rolls it back, as it would outlive the session.
func (b *bundle) prepare(t *testing.T, tx pgx.Tx) (name string) {
	t.Helper()
	name = "prepared-" + uuid.NewString() // names belong to the whole server
	if _, err := tx.Exec(t.Context(), `PREPARE TRANSACTION '`+name+`'`); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback(t.Context())                                                                                 // there is none any more: the session is free
	t.Cleanup(func() { _, _ = b.pool.Exec(context.WithoutCancel(t.Context()), `ROLLBACK PREPARED '`+name+`'`) }) // usually it has ended
	return name
}

// session is one for this test alone.
func (b *bundle) session(t *testing.T) *pgx.Conn {
	t.Helper()
	pooled, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := pooled.Hijack()
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// advance moves the watermark once.
func (b *bundle) advance(t *testing.T) delivery.Watermark {
	t.Helper()
	w, err := b.store.Advance(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Prepared transactions overlap, so that there always is one: each holds back what
// was visible before it began no longer than it lives.
func TestPreparedTransactionsAreFollowedOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	if b.recoversNames(t) {
		t.Skip("this release gives every prepared transaction a new name")
	}
	type link struct {
		name string
		high int64
	}
	next := func() link {
		tx := b.begin(t)
		appendIn(t, tx, uuid.NewString())
		l := link{name: b.prepare(t, tx)}
		l.high = b.append(t, "s-early", `1`)
		return l
	}
	last := next()
	b.advance(t) // notes it
	for n := range 6 {
		following := next()
		b.wantHeldBelow(t, last.high)
		end := "ROLLBACK"
		if n%3 == 2 {
			end = "COMMIT"
		}
		b.exec(t, end+` PREPARED '`+last.name+`'`)
		if w := b.advance(t); w.Safe < last.high || w.Safe >= following.high {
			t.Fatalf("after %s the watermark is at %d, want %d or more, and less than %d", end, w.Safe, last.high, following.high)
		}
		last = following
	}
}

// A transaction that was noted while its session had it goes on under the same name
// when it is prepared, while the session begins others.
func TestTheWatermarkFollowsATransactionThatIsPrepared(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	session := b.session(t)
	tx, err := session.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	low := appendIn(t, tx, "s-late")
	b.append(t, "s-early", `1`)
	b.wantHeldBelow(t, low)
	name := b.prepare(t, tx)
	for range 3 {
		if _, err := session.Exec(t.Context(), `SELECT outbox_append('s-other', 'thing.done', '{}')`); err != nil {
			t.Fatal(err)
		}
		b.wantHeldBelow(t, low)
	}
	b.exec(t, `COMMIT PREPARED '`+name+`'`)
	b.wantSafe(t, low+4)
}

// A server that starts again recovers prepared transactions under new names: one that
// was noted under its old name is not taken for ended.
func TestAPreparedTransactionOutlivesTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		preparedFirst bool // before it is noted
		end           func(context.Context, *testing.T, *localpg.Server, *pgxpool.Pool)
	}{
		"prepared, noted, restarted":         {true, restart},
		"noted, prepared, restarted":         {false, restart},
		"prepared, noted, killed":            {true, kill},
		"noted, prepared, a process crashed": {false, crash},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, server := setupOwn(t, 1)
			tx := b.begin(t)
			low := appendIn(t, tx, "s-late")
			high := b.append(t, "s-early", `1`)
			gid := ""
			if c.preparedFirst {
				gid = b.prepare(t, tx)
			}
			b.wantHeldBelow(t, low)
			if gid == "" {
				gid = b.prepare(t, tx)
			}
			before := b.names(t)
			b.exec(t, `CHECKPOINT`) // the note is kept
			c.end(t.Context(), t, server, b.pool)
			b.pool.Reset()
			if after := b.names(t); len(before) != 1 || len(after) != 1 || !strings.HasPrefix(after[0], "-1/") {
				t.Fatalf("the prepared transaction was %v and is %v", before, after)
			}
			b.until(t, `SELECT count(*) FROM outbox_watermark WHERE candidate IS NOT NULL AND holders <> '{}'`, 1)
			b.wantHeldBelow(t, low)
			// So is one that begins and is prepared now.
			next := b.begin(t)
			appendIn(t, next, "s-later")
			second := b.prepare(t, next)
			b.append(t, "s-early", `2`)
			b.wantHeldBelow(t, low)
			b.exec(t, `COMMIT PREPARED '`+gid+`'`)
			if w := b.advance(t); w.Safe < high {
				t.Errorf("the watermark is at %d, want %d or more", w.Safe, high)
			}
			b.exec(t, `COMMIT PREPARED '`+second+`'`)
			b.wantSafe(t, b.advance(t).Highest)
		})
	}
}

func restart(ctx context.Context, t *testing.T, server *localpg.Server, pool *pgxpool.Pool) {
	t.Helper()
	pool.Reset() // else it holds up the shutdown for nobody
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

func kill(ctx context.Context, t *testing.T, server *localpg.Server, _ *pgxpool.Pool) {
	t.Helper()
	if err := server.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// crash ends one process, upon which the server ends the others and recovers, without
// starting anew.
func crash(ctx context.Context, t *testing.T, _ *localpg.Server, pool *pgxpool.Pool) {
	t.Helper()
	var started, again string
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(ctx, `SELECT pg_postmaster_start_time()::text`).Scan(&started); err != nil {
		t.Fatal(err)
	}
	witness, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Release()
	victim := conn.Hijack()
	if err := syscall.Kill(int(victim.PgConn().PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.Exec(ctx, `SELECT pg_sleep(30)`); err == nil { // it ends when the server has noticed
		t.Fatal("the other sessions live on")
	}
	_ = victim.Close(ctx)
	pool.Reset()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for again == "" { // until it takes sessions again
		if err := pool.QueryRow(ctx, `SELECT pg_postmaster_start_time()::text`).Scan(&again); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if again != started {
		t.Fatalf("the server was started at %s, before at %s", again, started)
	}
}

// names are the virtual ids of prepared transactions of the database.
func (b *bundle) names(t *testing.T) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT DISTINCT virtualtransaction FROM pg_locks WHERE pid IS NULL AND locktype = 'relation' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// recoversNames tells whether prepared transactions never keep their names: before
// PostgreSQL 14.1.
func (b *bundle) recoversNames(t *testing.T) (yes bool) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int < 140001`).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}

// What the rule rests on: a prepared transaction has the virtual id of its session,
// which the session never has again.
func TestAPreparedTransactionKeepsItsSessionsName(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	if b.recoversNames(t) {
		t.Skip("not on this release")
	}
	const virtual = `SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'virtualxid'`
	session, seen := b.session(t), map[string]bool{}
	for n := range 20 {
		tx, err := session.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		appendIn(t, tx, fmt.Sprintf("s-%d", n))
		var name, now string
		if err := tx.QueryRow(t.Context(), virtual).Scan(&name); err != nil {
			t.Fatal(err)
		}
		if seen[name] {
			t.Fatalf("%s is used again", name)
		}
		seen[name] = true
		gid := b.prepare(t, tx)
		err = b.pool.QueryRow(t.Context(), `SELECT DISTINCT l.virtualtransaction
			FROM pg_prepared_xacts AS p JOIN pg_locks AS x ON x.transactionid = p.transaction AND x.locktype = 'transactionid' AND x.granted
			JOIN pg_locks AS l ON l.virtualtransaction = x.virtualtransaction AND l.pid IS NULL
			WHERE p.gid = $1 AND l.relation = 'events'::regclass AND l.mode = 'RowExclusiveLock'`, gid).Scan(&now)
		if err != nil || now != name {
			t.Fatalf("the transaction was %s and is %s: %v", name, now, err)
		}
		if err := session.QueryRow(t.Context(), virtual).Scan(&now); err != nil || now == name {
			t.Fatalf("the session goes on under %s: %v", now, err)
		}
		if n%2 == 0 {
			b.exec(t, `ROLLBACK PREPARED '`+gid+`'`)
		}
	}
}
