package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

const scratchNames = "postrider_verify_"

// verified is a verification on servers on which somebody's outbox is at work.
type verified struct {
	*clustertest.Cluster

	js     jetstream.JetStream
	before string
	role   string // of the database's URL, who may do nothing but make schemas
	url    string
}

// alone keeps verifications apart: what is timed in one would be the others' work.
var alone = make(chan struct{}, 1)

func newVerified(t *testing.T) *verified {
	t.Helper()
	alone <- struct{}{}
	t.Cleanup(func() { <-alone })
	c := clustertest.New(t, clustertest.Config{Partitions: 8, Flags: shortTTL()})
	v := &verified{Cluster: c, js: c.NATS.JetStream(t), role: "verify_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	address, err := url.Parse(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	database := pgx.Identifier{strings.TrimPrefix(address.Path, "/")}.Sanitize()
	for _, sql := range []string{
		"CREATE ROLE " + v.role + " LOGIN PASSWORD 'verify'",
		"REVOKE ALL ON SCHEMA public FROM PUBLIC", "REVOKE TEMPORARY ON DATABASE " + database + " FROM PUBLIC",
		"GRANT CREATE ON DATABASE " + database + " TO " + v.role,
		"CREATE SCHEMA mine", "CREATE TABLE mine.things AS SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n",
	} {
		if _, err := c.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	t.Cleanup(func() {
		if _, err := c.Pool.Exec(context.WithoutCancel(t.Context()), "REVOKE ALL ON DATABASE "+database+" FROM "+v.role+"; DROP ROLE "+v.role); err != nil {
			t.Error(err)
		}
	})
	address.User = url.UserPassword(v.role, "verify")
	v.url = address.String()
	other, err := v.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.js.Publish(t.Context(), "other.x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.Subscribe(t, nil)
	c.Start(t, 2)
	c.Produce(t, clustertest.Load{Every: 50 * time.Millisecond})
	v.before = v.traces(t)
	return v
}

// catalogue is what a database holds that is not an outbox's work.
const catalogue = `
SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'
UNION ALL SELECT 'relation ' || c.oid::regclass || ' ' || c.relkind::text FROM pg_class AS c WHERE c.relpersistence <> 't' AND c.relkind <> 't' AND c.relnamespace <> 'pg_toast'::regnamespace
UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc
UNION ALL SELECT 'role ' || rolname FROM pg_roles WHERE rolname LIKE '%verify%'
UNION ALL SELECT 'setting ' || setdatabase || ' ' || setrole || ' ' || setconfig::text FROM pg_db_role_setting
 WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
UNION ALL SELECT 'database ' || datname || ' ' || coalesce(datacl::text, '') FROM pg_database WHERE datname = current_database()
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE database = current_database()
UNION ALL SELECT 'prepared ' || gid FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL SELECT 'things ' || md5(string_agg(t::text, ',' ORDER BY t.n)) FROM mine.things AS t
UNION ALL SELECT 'settings ' || (to_jsonb(s))::text FROM public.outbox_settings AS s
UNION ALL SELECT 'audit ' || count(*) FROM public.outbox_audit
ORDER BY 1`

// traces are all that verification could leave, and what it could change of what others have.
func (v *verified) traces(t *testing.T) string {
	t.Helper()
	lines, err := collect(t, v.Pool, catalogue)
	if err != nil {
		t.Fatal(err)
	}
	streams := v.js.ListStreams(t.Context())
	for info := range streams.Info() {
		line := fmt.Sprintf("stream %+v", info.Config)
		if info.Config.Name == "OTHER" {
			line += fmt.Sprintf(" %+v", info.State)
		}
		stream, err := v.js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for name := range stream.ConsumerNames(t.Context()).Name() {
			if info.Config.Name == "OTHER" { // the other stream's reader has a name that changes
				line += " " + name
			}
		}
		lines = append(lines, line+fmt.Sprintf(" %d consumers", info.State.Consumers))
	}
	if streams.Err() != nil {
		t.Fatal(streams.Err())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func collect(t *testing.T, pool *pgxpool.Pool, sql string) ([]string, error) {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// begin starts one.
func (v *verified) begin(t *testing.T, flags ...string) *clustertest.Process {
	t.Helper()
	return clustertest.Launch(t, "verify", []string{"DATABASE_URL=" + v.url, "NATS_URL=" + v.NATS.URL(), "POSTRIDER_STREAM=OTHER", "POSTRIDER_CANARY=1s"},
		append([]string{"verify", "--seed=3"}, flags...)...)
}

// untouched makes sure that nothing is left, and nothing else has changed.
func (v *verified) untouched(t *testing.T) {
	t.Helper()
	if after := v.traces(t); after != v.before {
		was, is := strings.Split(v.before, "\n"), strings.Split(after, "\n")
		for _, line := range is {
			if !slices.Contains(was, line) {
				t.Errorf("left or changed: %s", line)
			}
		}
		for _, line := range was {
			if !slices.Contains(is, line) {
				t.Errorf("gone or changed: %s", line)
			}
		}
		t.Error("the servers are not as they were")
	}
	clustertest.Until(t, "its sessions have ended", func(ctx context.Context) (bool, error) {
		var n int
		err := v.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1`, v.role).Scan(&n)
		return n == 0, err
	}, nil)
}

// awaitScratch waits until the stream is there, and returns its name.
func (v *verified) awaitScratch(t *testing.T, p *clustertest.Process) (name string) {
	t.Helper()
	clustertest.Until(t, "the scratch is used", func(ctx context.Context) (bool, error) {
		for info := range v.js.ListStreams(ctx).Info() {
			if strings.HasPrefix(info.Config.Name, scratchNames) && info.State.Msgs > 200 {
				name = info.Config.Name
			}
		}
		select {
		case <-p.Ended():
			t.Fatal("it has ended")
		default:
		}
		return name != "", nil
	}, nil)
	return name
}

// On servers where somebody's outbox is at work, as a role that may do nothing but make schemas: every mishap happens, each event comes once,
// and nothing is left or changed. What the program is told for its workers by the environment is not for these.
func TestAVerificationFindsNothingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	p := v.begin(t, "--duration=0s", "--json")
	status := p.Exit(t)
	var verdict verdictBody
	if err := json.Unmarshal([]byte(p.Stdout()), &verdict); err != nil {
		t.Fatalf("status %d: %v: %s%s", status, err, p.Stdout(), p.Stderr())
	}
	late := verdict.Takeover > verdict.Bound // of a machine that is too slow for a promise in seconds, and of nothing else
	if status != exitOK && !late || verdict.OK == late || verdict.Committed < 1000 || verdict.Received != verdict.Committed || verdict.LatencyP50 == 0 ||
		verdict.Lost+verdict.Reordered+verdict.Duplicates != 0 || verdict.Failure != "" || len(verdict.Left) != 0 {
		t.Fatalf("status %d: %s%s", status, p.Stdout(), p.Stderr())
	}
	kinds := map[string]int{}
	for _, m := range verdict.Mishaps {
		kinds[m.Kind] = m.Times
	}
	for _, kind := range []string{
		"worker killed", "worker killed, marks held", "worker frozen", "worker's network held", "worker's batches late", "producer slow",
		"PostgreSQL cut off", "NATS cut off",
	} {
		if kinds[kind] != 1 {
			t.Errorf("%s: %d times", kind, kinds[kind])
		}
	}
	for _, f := range verdict.Doctor {
		if f.Level == levelError || f.Check == "fence" && f.Level != levelOK {
			t.Errorf("doctor: %+v", f)
		}
	}
	if len(verdict.Doctor) < 15 || !strings.HasPrefix(verdict.Scratch, scratchNames) {
		t.Errorf("the report is %s", p.Stdout())
	}
	v.untouched(t)
	v.Verify(t) // nothing of theirs is lost, doubled, or stored beside theirs
}

// One whose terminal is gone removes what it made, tells what it saw, and does not say that it proved something.
func TestAVerificationThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	hangups := make(chan os.Signal, 1) // who handles it passes on that it is not ignored, as it is where nohup runs the tests
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	p := v.begin(t)
	v.awaitScratch(t, p)
	p.Signal(t, syscall.SIGHUP)
	if status := p.Exit(t); status != exitFailed || !strings.Contains(p.Stdout(), "interrupted") || strings.Contains(p.Stdout(), "every event once") {
		t.Errorf("status %d: %s%s", status, p.Stdout(), p.Stderr())
	}
	v.untouched(t)
	v.Verify(t)
}

// One whose stream is taken away says that events are lost, and removes what is there.
func TestAVerificationThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	v := newVerified(t)
	p := v.begin(t)
	if err := v.js.DeleteStream(t.Context(), v.awaitScratch(t, p)); err != nil {
		t.Fatal(err)
	}
	if status := p.Exit(t); status != exitFailed || !strings.Contains(p.Stdout(), "BROKEN") {
		t.Errorf("status %d: %s%s", status, p.Stdout(), p.Stderr())
	}
	v.untouched(t)
	v.Verify(t)
}

// What cannot be removed is told, with the commands that do it. What is somebody else's stays.
func TestAVerificationTellsWhatItLeaves(t *testing.T) {
	t.Parallel()
	address, broker := pgtest.URL(t), natstest.Start(t, 1)
	pool := pgtest.Pool(t, address)
	x := newScratch()
	if err := x.makeSchema(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	other := &scratch{name: x.name}
	if err := other.makeSchema(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "somebody else's") {
		t.Errorf("a schema that is there: %v", err)
	}
	if left := other.remove(t.Context()); left != nil {
		t.Errorf("it left %v", left)
	}
	if found, err := collect(t, pool, `SELECT nspname::text FROM pg_namespace WHERE nspname = '`+x.name+`'`); err != nil || len(found) != 1 {
		t.Fatalf("the first one's schema is gone: %v, %v", found, err)
	}
	js := broker.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: x.name}); err != nil {
		t.Fatal(err)
	}
	if err := x.makeStream(t.Context(), broker.Connect(t), x.config(t)); err == nil || !strings.Contains(err.Error(), "somebody else's") {
		t.Errorf("a stream that is there: %v", err)
	}
	if err := js.DeleteStream(t.Context(), x.name); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BELLS", Subjects: []string{"outbox.>"}}); err != nil {
		t.Fatal(err)
	}
	if err := x.makeStream(t.Context(), broker.Connect(t), x.config(t)); err == nil || !strings.Contains(err.Error(), "stream BELLS captures outbox.bell.") {
		t.Errorf("a stream that hears the bell: %v", err)
	}
	if err := js.DeleteStream(t.Context(), "BELLS"); err != nil {
		t.Fatal(err)
	}
	nc := broker.Connect(t)
	if err := x.makeStream(t.Context(), nc, x.config(t)); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if left := x.remove(ctx); !slices.Equal(left, []string{"nats stream rm -f " + x.name}) {
		t.Errorf("it tells of %v", left)
	}
	if found, err := collect(t, pool, `SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'postrider%'`); err != nil || len(found) != 0 {
		t.Errorf("there are %v: %v", found, err)
	}
}

// A role that may make no schema is told which right it lacks; so is a NATS user who may make no stream.
func TestAVerificationNamesTheRights(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	pool, role := pgtest.Pool(t, address.String()), "rights_"+strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := pool.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'verify'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role) })
	address.User = url.UserPassword(role, "verify")
	p := clustertest.Launch(t, "verify", nil, "verify", "--database-url="+address.String(), "--nats-url="+natstest.Start(t, 1).URL())
	if status := p.Exit(t); status != exitRefused || !strings.Contains(p.Stderr(), "GRANT CREATE ON DATABASE") || !strings.Contains(p.Stderr(), role) {
		t.Errorf("status %d: %s", status, p.Stderr())
	}
	for flag, says := range map[string]string{"--workers=1": "--workers", "--rate=0": "--rate", "--duration=25h": "--duration", "--stream-replicas=2": "--stream-replicas"} {
		complaint{[]string{"verify", "--database-url=postgres://" + nobody + "/x", flag}, exitRefused, []string{says}}.check(t)
	}
}

func (x *scratch) config(t *testing.T) (c streams.StreamConfig) {
	t.Helper()
	subject, err := wire.ParseSubject(x.subject())
	if err != nil {
		t.Fatal(err)
	}
	c.Subject, c.Control = subject, streams.Control{Outbox: uuid.New(), Prefix: x.control()}
	return c
}
