//go:build matrix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

const partitions = 12

var listening = regexp.MustCompile(`Listening for client connections on (\S+)`)

// startBroker runs a server as a process of its own and returns its address.
func startBroker(t *testing.T, program string, b broker) string {
	t.Helper()
	p := clustertest.LaunchBinary(t, "nats-server", program, nil, "--addr="+loopback.Host, "--port=-1", "--jetstream", "--store_dir="+t.TempDir())
	p.WaitLog(t, "Server is ready")
	found := listening.FindStringSubmatch(p.Stderr())
	if found == nil {
		t.Fatalf("nats-server does not say where it listens: %s", p.Stderr())
	}
	address := "nats://" + found[1]
	if is := natstest.Attach(address).Connect(t).ConnectedServerVersion(); is != b.version {
		t.Fatalf("nats-server is %s, want %s", is, b.version)
	}
	return address
}

// shop is a cell with its tables and roles.
type shop struct {
	cell
	superuser string // of the database
	broker    string
}

// newShop does what docs/deployment.md says.
func newShop(t *testing.T, c cell, server, broker string) shop {
	t.Helper()
	name := "cell_" + strings.NewReplacer(".", "_").Replace(c.broker.line) + fmt.Sprintf("_%t", c.refuses)
	execute(t, server, "CREATE DATABASE "+name)
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	s := shop{cell: c, superuser: address.String(), broker: broker}
	pool := pgtest.Pool(t, s.superuser)
	var number int
	if err := pool.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&number); err != nil || number/10_000 != c.database.major {
		t.Fatalf("the server is PostgreSQL %d, want %d, %v", number, c.database.major, err)
	}
	roles, err := os.ReadFile(filepath.Join(root, "deploy/sql/roles.sql"))
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s.superuser, string(roles))
	for _, role := range []string{"migrator", "producer", "worker", "monitor", "operator"} {
		execute(t, s.superuser, fmt.Sprintf(`ALTER ROLE postrider_%s LOGIN PASSWORD 'secret'`, role))
	}
	execute(t, s.superuser, "REVOKE CREATE ON SCHEMA public FROM PUBLIC") // PostgreSQL 14 grants it
	s.must(t, "migrator", "migrate", "up", fmt.Sprint("--partitions=", partitions))
	execute(t, s.superuser, string(roles))
	if c.refuses {
		execute(t, s.superuser, "REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn() FROM PUBLIC")
	}
	return s
}

// as is the database for a role.
func (s shop) as(t *testing.T, role string) string {
	t.Helper()
	address, err := url.Parse(s.superuser)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("postrider_"+role, "secret")
	return address.String()
}

// call runs a command of a role to its end.
func (s shop) call(t *testing.T, role string, args ...string) *clustertest.Process {
	t.Helper()
	p := clustertest.Launch(t, "postrider "+strings.Join(args, " "), []string{"DATABASE_URL=" + s.as(t, role), "NATS_URL=" + s.broker}, args...)
	p.Exit(t)
	return p
}

func (s shop) must(t *testing.T, role string, args ...string) string {
	t.Helper()
	p := s.call(t, role, args...)
	if status := p.Exit(t); status != 0 {
		t.Fatalf("postrider %s ended with %d: %s%s", strings.Join(args, " "), status, p.Stdout(), p.Stderr())
	}
	return p.Stdout()
}

// journey delivers a load although one worker is killed and one drained, and has every command do its work.
func (s shop) journey(t *testing.T) {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{
		Partitions: partitions, DatabaseURL: s.superuser, NATS: natstest.Attach(s.broker), NoStream: true,
		Flags: []string{"--database-url=" + s.as(t, "worker"), "--create-stream", "--lease-ttl=3s"},
	})
	workers := c.Start(t, 3)
	killed, drained, rest := workers[0], workers[1], workers[2]
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{DatabaseURL: s.as(t, "producer"), Writers: 2, Every: 15 * time.Millisecond})
	load.WaitCommitted(t, 200)
	killed.Signal(t, syscall.SIGKILL)
	killed.Exit(t)
	load.WaitCommitted(t, 100)
	c.WaitHeld(t, drained, rest)
	s.must(t, "operator", "workers", "drain", drained.ID.String(), "--reason=journey")
	c.WaitHeld(t, rest)
	load.WaitCommitted(t, 100)
	c.Verify(t)
	s.diagnose(t)
	s.operate(t, fmt.Sprint(c.Count(t, `SELECT min(sequence) FROM events`)))
	for _, w := range []*clustertest.Worker{drained, rest} {
		w.Signal(t, syscall.SIGTERM)
		if status := w.Exit(t); status != 0 {
			t.Errorf("a worker ended with %d", status)
		}
		for _, complaint := range []string{"permission denied", "level=ERROR"} {
			if strings.Contains(w.Stderr(), complaint) {
				t.Errorf("a worker complains: %s", w.Stderr())
			}
		}
	}
}

// diagnose wants doctor to find what this cell is, and nothing else.
func (s shop) diagnose(t *testing.T) {
	t.Helper()
	var findings []struct{ Check, Level, Detail string }
	text := s.must(t, "worker", "doctor", "--json")
	if err := json.Unmarshal([]byte(text), &findings); err != nil {
		t.Fatal(err)
	}
	says := map[string]string{
		"PostgreSQL version": fmt.Sprint(s.database.major, "."), "broker": "nats-server " + s.cell.broker.version,
		"server functions": "all are there", "fence": "the stream takes fenced batches",
	}
	// The private server does not sync, and nothing bounds idle transactions.
	warns := []string{"durability", "strict order: idle"}
	if s.refuses {
		says["server functions"] = "snapshots tell of changes"
	}
	if !s.cell.broker.batches {
		says["fence"] = "is older than 2.12"
		warns = append(warns, "fence")
	}
	var warned []string
	for _, f := range findings {
		if f.Level != "ok" && !slices.Contains(warned, f.Check) {
			warned = append(warned, f.Check)
		}
		if !strings.Contains(f.Detail, says[f.Check]) {
			t.Errorf("doctor says of %s: %s, want %q", f.Check, f.Detail, says[f.Check])
		}
		delete(says, f.Check)
	}
	slices.Sort(warned)
	slices.Sort(warns)
	if !slices.Equal(warned, warns) || len(says) > 0 {
		t.Errorf("doctor warns of %q, want %q, and says nothing of %v: %s", warned, warns, says, text)
	}
}

// operate has each role do its work: statements that a release does not understand would show.
func (s shop) operate(t *testing.T, event string) {
	t.Helper()
	for _, command := range [][]string{
		{"monitor", "status"},
		{"monitor", "workers"},
		{"monitor", "partitions", "list"},
		{"monitor", "partitions", "history"},
		{"operator", "messages", "list"},
		{"operator", "messages", "show", event},
		{"operator", "dead", "list"},
		{"operator", "gaps", "detect"},
		{"operator", "partitions", "pause", "0", "--reason=journey"},
		{"operator", "partitions", "resume", "0", "--reason=journey"},
		{"operator", "replay", "--kind=retry", "--all", "--prepare", "--yes", "--reason=journey"},
		{"migrator", "migrate", "status"},
		{"migrator", "partitions", "resize", "16", "--yes", "--reason=journey"},
	} {
		s.must(t, command[0], command[1:]...)
	}
}

// execute runs SQL on a connection of its own.
func execute(t *testing.T, address, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}
