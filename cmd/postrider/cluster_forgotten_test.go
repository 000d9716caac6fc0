package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// Standbys that lagged are promoted one after the other, each of a primary that had published a few events more: each
// time it is told, and each time there is a higher generation.
func TestEachFailoverThatForgetsIsTold(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	f := newFailovers(t)
	for _, n := range []int{8, 400} {
		f.forget(t, n)
	}
}

// So it is however many are forgotten, also within what a sequence is logged ahead (32); and nothing is told where
// nothing was forgotten: with a standby that has everything, when old events were removed, and behind a resize.
func TestFailoversThatForgetAreToldApart(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	f := newFailovers(t)
	for _, n := range []int{1, 8} {
		f.forget(t, n)
	}
	f.keep(t)
	for _, n := range []int{31, 33, 400} {
		f.forget(t, n)
	}
	f.exec(t, `DELETE FROM events WHERE sequence < (SELECT max(sequence) FROM events)`)
	f.keep(t)
	for _, count := range []string{"4", "16"} {
		resize := clustertest.Launch(t, "resize", f.environment(), "partitions", "resize", count, "--yes", "--reason=test")
		if status := resize.Exit(t); status != exitOK {
			t.Fatalf("resize: %d: %s", status, resize.Stderr())
		}
		f.expected++ // a resize raises the generation, too
	}
	f.keep(t)
	f.forget(t, 8)
}

// So it is where workers may call none of the functions that tell of the server's log: they know the server by its start alone, and take a
// restart for no loss.
func TestAFailoverIsToldWithoutTheServersFunctions(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	f := prepareFailovers(t)
	role := plainRelay(t, f.pool)
	address, err := url.Parse(f.cluster.Database.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "relay")
	f.begin(t, "--database-url="+address.String())
	f.forget(t, 8)
	f.keep(t)
}

// plainRelay makes a role with a relay's rights, and takes those functions from everybody.
func plainRelay(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	role := "relay_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'relay'", "GRANT USAGE ON SCHEMA public TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role, "REVOKE INSERT ON events FROM " + role,
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO " + role, "REVOKE EXECUTE ON FUNCTION " + walFunctions + " FROM PUBLIC",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return role
}

// failovers is a cluster that goes from one primary to the next.
type failovers struct {
	cluster *clustertest.Cluster
	workers []*clustertest.Worker
	primary *localpg.Server
	pool    *pgxpool.Pool // of the primary

	alarms   int // so far
	expected int // generation
}

func newFailovers(t *testing.T, flags ...string) *failovers {
	t.Helper()
	f := prepareFailovers(t, flags...)
	f.begin(t)
	return f
}

func prepareFailovers(t *testing.T, flags ...string) *failovers {
	t.Helper()
	f := &failovers{primary: pgtest.Server(t, localpg.Config{})}
	migrate := clustertest.Launch(t, "migrate", []string{"DATABASE_URL=" + f.primary.URL()}, "migrate", "up", "--partitions=8")
	if migrate.Exit(t) != exitOK {
		t.Fatalf("migrate up: %s", migrate.Stderr())
	}
	f.pool = pgtest.Pool(t, f.primary.URL())
	f.cluster = clustertest.New(t, clustertest.Config{
		DatabaseURL: f.primary.URL(), Partitions: 8, Proxied: true, Resized: true, Flags: append(append(shortTTL(), "--http-addr=127.0.0.1:0"), flags...),
	})
	return f
}

// begin starts the workers.
func (f *failovers) begin(t *testing.T, flags ...string) {
	t.Helper()
	f.workers = f.cluster.Start(t, 2, flags...)
	f.cluster.WaitShared(t, f.workers...)
}

// environment leads commands to the primary of now.
func (f *failovers) environment() []string {
	return []string{"DATABASE_URL=" + f.primary.URL(), "NATS_URL=" + f.cluster.NATS.URL()}
}

func (f *failovers) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := f.pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (f *failovers) drained(t *testing.T) {
	t.Helper()
	clustertest.Until(t, "all is delivered", func(ctx context.Context) (bool, error) {
		var left int
		err := f.pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&left)
		return left == 0, err
	}, nil)
}

// forget fails over to a standby that lacks so many published events.
func (f *failovers) forget(t *testing.T, n int) {
	t.Helper()
	standby, pool := f.standby(t)
	insert(t, f.primary.URL(), fmt.Sprintf("common-%d", n), 100)
	f.drained(t)
	f.cut(t, pool)
	insert(t, f.primary.URL(), fmt.Sprintf("forgotten-%d", n), n)
	f.drained(t)
	f.over(t, standby, pool)
	f.alarms++
	f.expected++
	clustertest.Until(t, fmt.Sprintf("the loss of %d events is told", n), func(ctx context.Context) (bool, error) {
		alarms, generation, err := f.told(ctx)
		return alarms == f.alarms && generation == f.expected, err
	}, func() string { return fmt.Sprint(f.told(context.WithoutCancel(t.Context()))) })
	f.drained(t)
	f.wantTold(t)
	doctor := clustertest.Launch(t, "doctor", f.environment(), "doctor")
	if status := doctor.Exit(t); status == exitOK || !strings.Contains(doctor.Stdout(), "the database had forgotten some") {
		t.Errorf("doctor ends with %d and says\n%s", status, doctor.Stdout())
	}
}

// cut has the standby receive nothing more than what there is.
func (f *failovers) cut(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var end string
	if err := f.pool.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end); err != nil {
		t.Fatal(err)
	}
	clustertest.Until(t, "the standby has what is common", func(ctx context.Context) (caughtUp bool, err error) {
		err = pool.QueryRow(ctx, `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, end).Scan(&caughtUp)
		return caughtUp, err
	}, nil)
	for _, sql := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	clustertest.Until(t, "the standby receives nothing", func(ctx context.Context) (cut bool, err error) {
		err = pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`).Scan(&cut)
		return cut, err
	}, nil)
}

// keep fails over to a standby that has everything, under load: nothing is told.
func (f *failovers) keep(t *testing.T) {
	t.Helper()
	standby, pool := f.standby(t)
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		f.exec(t, sql)
	}
	clustertest.Until(t, "the standby is synchronous", func(ctx context.Context) (is bool, err error) {
		err = f.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`).Scan(&is)
		return is, err
	}, nil)
	stop := f.load(t, f.primary.URL(), "kept")
	insert(t, f.primary.URL(), "common", 300)
	if err := f.primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	f.over(t, standby, pool)
	if _, err := f.pool.Exec(t.Context(), `ALTER SYSTEM RESET synchronous_standby_names`); err != nil {
		t.Fatal(err)
	}
	// Every partition is taken before it delivers.
	insert(t, f.primary.URL(), "behind", 200)
	f.drained(t)
	f.wantTold(t)
}

// over ends the primary and promotes the standby under load.
func (f *failovers) over(t *testing.T, standby *localpg.Server, pool *pgxpool.Pool) {
	t.Helper()
	if err := f.primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(standby.URL())
	if err != nil {
		t.Fatal(err)
	}
	stop := f.load(t, standby.URL(), "after")
	defer stop()
	f.cluster.Database.Retarget(target.Host)
	f.cluster.Database.Cut()
	pgtest.Promote(t, standby.URL())
	f.primary, f.pool = standby, pool
	clustertest.Until(t, "the standby takes writes", func(ctx context.Context) (bool, error) {
		var events int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM events WHERE stream_id LIKE 'after-%'`).Scan(&events)
		return events >= 20, err
	}, nil)
}

// load appends one event after the other until stop is called, whatever fails.
func (f *failovers) load(t *testing.T, address, prefix string) (stop func()) {
	t.Helper()
	pool := pgtest.Pool(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = pool.Exec(ctx, `SELECT outbox_append($1, 'thing.done', '{}')`, fmt.Sprintf("%s-%d", prefix, n%20))
		}
	})
	return func() { cancel(); producing.Wait() }
}

// standby copies the primary and follows it.
func (f *failovers) standby(t *testing.T) (*localpg.Server, *pgxpool.Pool) {
	t.Helper()
	var programs string
	if err := f.pool.QueryRow(t.Context(), `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&programs); err != nil {
		t.Fatal(err)
	}
	data := f.primary.DataDir() + "-next" // where the server's user may go
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	for _, command := range [][]string{
		{filepath.Join(programs, "pg_basebackup"), "--pgdata=" + data, "--dbname=" + f.primary.URL(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"},
		{"chown", "-R", "--reference=" + f.primary.DataDir(), data},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil { // of this test
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	server := pgtest.Server(t, localpg.Config{DataDir: data, Settings: localpg.TemporarySettings()})
	return server, pgtest.Pool(t, server.URL())
}

func (f *failovers) told(ctx context.Context) (alarms, generation int, err error) {
	err = f.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'), generation
		FROM outbox_settings`).Scan(&alarms, &generation)
	return alarms, generation, err
}

var regressionsCounted = regexp.MustCompile(`(?m)^outbox_database_regressions_total(?:\{.*\})? (\d+)`)

// wantTold wants every loss told once: in the audit, by the generation, the log, and the metric.
func (f *failovers) wantTold(t *testing.T) {
	t.Helper()
	alarms, generation, err := f.told(t.Context())
	if err != nil || alarms != f.alarms || generation != f.expected {
		t.Errorf("%d alarms, generation %d: %v; want %d and %d", alarms, generation, err, f.alarms, f.expected)
	}
	logged, counted := 0, 0
	for _, w := range f.workers {
		logged += strings.Count(w.Stderr(), "THE DATABASE HAS FORGOTTEN PUBLISHED EVENTS")
		answer, err := http.Get(w.Monitor(t) + "/metrics") // of this test
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		found := regressionsCounted.FindSubmatch(text)
		if found == nil {
			t.Fatal("the metric is missing")
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		counted += n
	}
	if logged != f.alarms || counted != f.alarms {
		t.Errorf("%d lines of the log, counted %d; want %d", logged, counted, f.alarms)
	}
}
