package walbell_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/walbell"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is how long nothing may happen before a test gives up.
const patience = 30 * time.Second

const (
	ask     = `CREATE PUBLICATION postrider_public FOR TABLE public.outbox_ready WITH (publish = 'insert')`
	holders = `SELECT coalesce(max(active_pid), 0) FROM pg_replication_slots WHERE temporary AND confirmed_flush_lsn IS NOT NULL`
)

// What puts something into the outbox rings, and again a little later; nothing else does.
func TestCommitsRing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"logical_decoding_work_mem": "64kB"})
	p.exec(t, `CREATE TABLE other (id int, text text)`)
	l := listen(t, p.address)
	p.held(t)
	l.wait(t, 2) // for what came before
	for n := range int64(5) {
		stream := fmt.Sprint("s", n)
		p.exec(t, `SELECT outbox_append('`+stream+`', 't', '1')`)
		l.wait(t, 2*n+4)
		for _, named := range l.since(int(2*n + 2)) {
			if want := []partition.ID{partition.Of(stream, 4)}; !slices.Equal(named, want) {
				t.Errorf("a ring names %v, want %v", named, want)
			}
		}
	}
	p.exec(t, `BEGIN; SELECT outbox_append('s', 't', '1'); INSERT INTO other VALUES (1); ROLLBACK`,
		`INSERT INTO other VALUES (2)`, `SELECT outbox_append('s', 't', '1', publish => false)`,
		`UPDATE outbox SET attempts = 1`, `DELETE FROM outbox`, `UPDATE outbox_partitions SET paused_at = NULL`)
	p.heardAll(t)
	if rings := l.rings.Load(); rings != 12 {
		t.Errorf("%d rings, want 12", rings)
	}
	// Larger than the server's memory for it, with another transaction in between.
	large, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := large.Exec(t.Context(), `SELECT outbox_append('s' || n, 't', '1') FROM generate_series(1, 3000) AS n`); err != nil {
		t.Fatal(err)
	}
	p.exec(t, `SELECT outbox_append('another', 't', '1')`)
	l.wait(t, 14)
	if err := large.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wait(t, 16)
	if named := l.since(14); len(named[0])+len(named[1]) > 0 {
		t.Errorf("of a large transaction rings name %v alone", named)
	}
	p.exec(t, `SELECT outbox_append('another', 't', '1')`) // its table was told of in the large one
	l.wait(t, 18)
	if named := l.since(16); len(named[0]) != 1 || len(named[1]) != 1 {
		t.Errorf("after a large transaction rings name %v", named)
	}
}

// One of all holds the slot; when its session or its process ends another one does.
func TestOneTakesOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	workers := []*listening{listen(t, p.address), listen(t, p.address+"&target_session_attrs=read-write")}
	for range 3 {
		session := p.held(t)
		p.exec(t, `SELECT pg_terminate_backend(`+"(SELECT active_pid FROM pg_replication_slots LIMIT 1)"+`)`)
		p.until(t, "nobody took over", holders, func(n int) bool { return n != 0 && n != session })
	}
	holder := p.holder(t, workers)
	heir := workers[1-holder]
	before := heir.rings.Load()
	workers[holder].stop()
	p.held(t)
	heir.wait(t, before+2) // for what came before
	p.exec(t, `SELECT outbox_append('s', 't', '1')`)
	heir.wait(t, before+4)
	heir.stop()
	p.until(t, "a slot is left", `SELECT count(*) FROM pg_replication_slots`, func(n int) bool { return n == 0 })
}

// The server may forget its log while others write and the outbox does not.
func TestNoLogIsKept(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.exec(t, `CREATE TABLE other (id int, text text)`)
	listen(t, p.address)
	p.held(t)
	for range 20 {
		p.exec(t, `INSERT INTO other SELECT n, repeat('x', 200) FROM generate_series(1, 1000) AS n`)
	}
	var written string
	if err := p.pool.QueryRow(t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&written); err != nil {
		t.Fatal(err)
	}
	// Twice: what the first writes down lets the server begin at the second.
	p.exec(t, `CHECKPOINT`, `INSERT INTO other VALUES (1)`, `CHECKPOINT`)
	p.until(t, "the log is kept", `SELECT count(*) FROM pg_replication_slots
		WHERE restart_lsn >= '`+written+`' AND confirmed_flush_lsn >= '`+written+`'`, func(n int) bool { return n == 1 })
}

// A bell that confirms what it heard must not make anybody believe that a standby has it.
func TestItIsNoSynchronousStandby(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"synchronous_commit": "local"})
	l := listen(t, p.address)
	p.held(t)
	for _, names := range []string{`*`, `FIRST 1 (a, "Postrider Bell")`} {
		p.exec(t, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`, `SELECT pg_reload_conf()`)
		p.until(t, "the slot is held", `SELECT count(*) FROM pg_replication_slots`, func(n int) bool { return n == 0 })
		if _, err := walbell.Check(t.Context(), p.pool, "public"); err == nil || !strings.Contains(err.Error(), "synchronous_standby_names") {
			t.Errorf("with %s: %v", names, err)
		}
		p.exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'a'`, `SELECT pg_reload_conf()`)
		p.held(t)
	}
	if !strings.Contains(l.said(), "synchronous_standby_names") {
		t.Errorf("the log does not say it: %s", l.said())
	}
}

// What is lacking is said once, with its cure.
func TestWhatIsLackingIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"max_replication_slots": "1", "max_wal_senders": "1"})
	p.exec(t, `CREATE ROLE relay LOGIN PASSWORD 'relay'`)
	as, err := url.Parse(p.address)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("relay", "relay")
	wants := func(l *listening, cure string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for !strings.Contains(l.said(), cure) {
			p.exec(t, `SELECT 1`)
			if time.Now().After(deadline) {
				t.Fatalf("the log does not say %q: %s", cure, l.said())
			}
		}
		l.stop()
		if n := strings.Count(l.said(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings: %s", n, l.said())
		}
	}
	wants(listen(t, as.String()), "REPLICATION")
	relay := pgtest.Pool(t, as.String())
	for deadline := time.Now().Add(patience); ; { // the server may still be ending the session that it refused
		_, err := walbell.Check(t.Context(), relay, "public")
		if err != nil && strings.Contains(err.Error(), "ALTER ROLE") {
			break
		}
		if err == nil || time.Now().After(deadline) {
			t.Fatalf("of a role that may not: %v", err)
		}
	}
	p.exec(t, `SELECT pg_create_physical_replication_slot('taken')`)
	wants(listen(t, p.address), "max_replication_slots")
	p.exec(t, `SELECT pg_drop_replication_slot('taken')`)
	other, err := pgconn.Connect(t.Context(), p.address+"&replication=database")
	for deadline := time.Now().Add(patience); err != nil; other, err = pgconn.Connect(t.Context(), p.address+"&replication=database") {
		if !strings.Contains(err.Error(), "max_wal_senders") || time.Now().After(deadline) { // the refused session may not have ended
			t.Fatal(err)
		}
	}
	wants(listen(t, p.address), "max_wal_senders")
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
	p.exec(t, `ALTER ROLE relay REPLICATION`) // and nothing else
	listen(t, as.String())
	p.held(t)
	if text, err := walbell.Check(t.Context(), p.pool, "public"); err != nil || !strings.Contains(text, "holds the slot") {
		t.Errorf("of a slot that is held: %s %v", text, err)
	}
}

// A server whose log cannot be decoded, or an outbox that does not ask, has no slot; each is said.
func TestItIsAskedFor(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	p := place{address, pgtest.Pool(t, address)}
	text, err := walbell.Check(t.Context(), p.pool, "public")
	if err != nil || !strings.Contains(text, "CREATE PUBLICATION") {
		t.Fatalf("of an outbox that does not ask: %s %v", text, err)
	}
	_, statement, _ := strings.Cut(text, "runs: ")
	p.exec(t, statement)
	if _, err := walbell.Check(t.Context(), p.pool, "public"); err == nil || !strings.Contains(err.Error(), "wal_level") {
		t.Errorf("of a server without a log to decode: %v", err)
	}
}

// A pool whose passwords come when it connects is asked for them.
func TestThePasswordComesWhenItConnects(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	config := p.pool.Config()
	right := config.ConnConfig.Password
	config.ConnConfig.Password = "of yesterday"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = right
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if text, err := walbell.Check(t.Context(), pool, "public"); err != nil || !strings.Contains(text, "the log can ring") {
		t.Errorf("the log is not found well: %q %v", text, err)
	}
}

// A slot in the making waits for open transactions, and may be given up at any time.
func TestMakingTheSlotCanBeStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	open, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Rollback(context.Background()) })
	if _, err := open.Exec(t.Context(), `SELECT outbox_append('s', 't', '1')`); err != nil {
		t.Fatal(err)
	}
	l := listen(t, p.address)
	p.until(t, "no slot is made", `SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn IS NULL`, func(n int) bool { return n == 1 })
	if text, err := walbell.Check(t.Context(), p.pool, "public"); err != nil || !strings.Contains(text, "waits for open transactions") {
		t.Errorf("meanwhile: %s %v", text, err)
	}
	l.stop()
	p.until(t, "the slot is left", `SELECT count(*) FROM pg_replication_slots`, func(n int) bool { return n == 0 })
	again := listen(t, p.address)
	p.until(t, "no slot is made", `SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn IS NULL`, func(n int) bool { return n == 1 })
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.held(t)
	again.wait(t, 1)
}
