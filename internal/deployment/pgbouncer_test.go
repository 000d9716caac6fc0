package deployment_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// pgbouncer is the program; Debian puts it where only root looks.
func pgbouncer(t *testing.T) string {
	t.Helper()
	const debian = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(debian); err == nil {
		return debian
	}
	return tool(t, "pgbouncer", "POSTRIDER_PGBOUNCER")
}

// pooled starts a PgBouncer before the cluster's database and returns the database's address through it.
func pooled(t *testing.T, c *clustertest.Cluster, program, mode string) string {
	t.Helper()
	port, err := loopback.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := address.User.Password()
	folder := t.TempDir()
	settings := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s password=%s\n"+
		"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = %s\ndefault_pool_size = 30\nmax_client_conn = 100\n",
		address.Hostname(), address.Port(), address.User.Username(), password, port, mode)
	if mode == "transaction" && knowsStatements(t, program) {
		settings += "max_prepared_statements = 200\n"
	}
	config := filepath.Join(folder, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, config)
	if os.Geteuid() == 0 { // it refuses to run as root
		const uid, gid = 65534, 65534 // nobody
		for _, path := range []string{folder, filepath.Dir(folder), config} {
			if err := os.Chown(path, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	address.Host = fmt.Sprintf("127.0.0.1:%d", port)
	clustertest.Until(t, "PgBouncer answers", func(ctx context.Context) (bool, error) {
		conn, err := pgx.Connect(ctx, address.String()+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			return false, nil // not yet
		}
		return true, conn.Close(ctx)
	}, nil)
	return address.String()
}

// docs/deployment.md: what of PgBouncer works, and how. Workers start, share, hand over and deliver through it.
func TestPgBouncer(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, c := range []struct { //nolint:paralleltest // one at a time
		name, mode, parameters string
		statements             bool // the pooler has to know prepared statements
	}{
		{"session", "session", "", false},
		{"transaction without prepared statements", "transaction", "&default_query_exec_mode=cache_describe", false},
		{"transaction with prepared statements", "transaction", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := pgbouncer(t)
			if c.statements && !knowsStatements(t, program) {
				t.Skip("this PgBouncer is older than 1.21")
			}
			cluster := clustertest.New(t, clustertest.Config{Partitions: 8})
			environment := []string{"DATABASE_URL=" + pooled(t, cluster, program, c.mode) + c.parameters, "NATS_URL=" + cluster.NATS.URL()}
			cluster.Subscribe(t, nil)
			var workers []*clustertest.Process
			for i := range 2 {
				w := clustertest.Launch(t, fmt.Sprint("worker ", i), environment, "run", "--http-addr=127.0.0.1:0")
				w.WaitLog(t, "msg=monitor")
				workers = append(workers, w)
			}
			load := cluster.Produce(t, clustertest.Load{})
			load.WaitCommitted(t, 300)
			workers[0].Signal(t, syscall.SIGTERM)
			if status := workers[0].Exit(t); status != 0 {
				t.Errorf("the worker ended with %d", status)
			}
			load.WaitCommitted(t, 300)
			cluster.Verify(t)
			if log := workers[1].Stderr(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
				t.Errorf("the worker complains: %s", log)
			}
		})
	}
}

// knowsStatements tells whether this is version 1.21 or newer.
func knowsStatements(t *testing.T, program string) bool {
	t.Helper()
	stdout, stderr, err := execute(t, ".", program, "--version")
	if err != nil {
		t.Fatalf("pgbouncer --version: %v\n%s", err, stderr)
	}
	var major, minor int
	if _, err := fmt.Sscanf(stdout, "PgBouncer %d.%d", &major, &minor); err != nil {
		t.Fatalf("version of PgBouncer: %q", stdout)
	}
	return major > 1 || minor >= 21
}

// PgBouncer refuses a search_path as a startup parameter: the program connects without, and doctor says whether the role has it.
func TestPgBouncerLeavesThePathToTheRole(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	cluster := clustertest.New(t, clustertest.Config{Partitions: 8})
	program := pgbouncer(t)
	for _, step := range []struct{ sql, want string }{
		{`SELECT`, "ALTER ROLE … SET search_path"},
		{`DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = pg_catalog, pg_temp', current_database()); END$$`, `"detail":"pg_catalog, pg_temp"`},
	} {
		mustStatement(t, cluster.DatabaseURL, step.sql)
		environment := []string{"DATABASE_URL=" + pooled(t, cluster, program, "session"), "NATS_URL=" + cluster.NATS.URL()}
		if found := mustPostrider(t, environment, "doctor", "--json"); !strings.Contains(found, step.want) {
			t.Errorf("after %s doctor says: %s", step.sql, found)
		}
	}
}

// Mode statement is refused by its name, whatever is tried first, and a rehearsal in each mode.
func TestPgBouncerRefusesWhatCannotBe(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	cluster := clustertest.New(t, clustertest.Config{Partitions: 8})
	environment := []string{
		"DATABASE_URL=" + pooled(t, cluster, pgbouncer(t), "statement") + "&default_query_exec_mode=cache_describe", "NATS_URL=" + cluster.NATS.URL(),
	}
	for _, command := range [][]string{{"run", "--http-addr=off"}, {"doctor"}, {"status"}, {"messages", "list"}} {
		stdout, stderr, status := postrider(t, environment, command...)
		if text := stdout + stderr; status == 0 || strings.Contains(text, "events relation") || !strings.Contains(text, "pool_mode") {
			t.Errorf("%v ended with %d: %s", command, status, text)
		}
	}
	// A rehearsal's sessions would be handed to workers, which could write no more: it wants the server itself.
	address := pooled(t, cluster, pgbouncer(t), "transaction")
	stdout, stderr, status := postrider(t, []string{"DATABASE_URL=" + address, "NATS_URL=" + cluster.NATS.URL()}, "run", "--shadow", "--once")
	if text := stdout + stderr; status == 0 || !strings.Contains(text, "give the server's own address in --database-url") {
		t.Errorf("a rehearsal ended with %d: %s", status, text)
	}
	mustStatement(t, address, `CREATE TABLE written ()`)
}
