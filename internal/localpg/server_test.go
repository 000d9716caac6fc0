package localpg_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start starts a server that ends with the test.
func start(t *testing.T, config localpg.Config) *localpg.Server {
	t.Helper()
	server, err := localpg.Start(deadline(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return server
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(deadline(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // The server may be gone already.
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(deadline(t), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func queryText(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var text string
	if err := conn.QueryRow(deadline(t), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// openDir returns a folder that the server's user can reach when the test runs as root.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-") //nolint:usetesting // The server's user cannot enter t.TempDir of root.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "data")
}

func TestTemporaryServer(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(deadline(t), localpg.Config{Settings: map[string]string{"work_mem": "5MB"}})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.URL())
	for setting, want := range map[string]string{
		"work_mem": "5MB", "max_prepared_transactions": "32", "fsync": "off", "TimeZone": "UTC",
		"server_encoding": "UTF8", "listen_addresses": "127.0.0.1",
	} {
		if got := queryText(t, conn, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if err := server.Stop(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(server.DataDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary directory after Stop: %v, want it gone", err)
	}
	if err := server.Stop(deadline(t)); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if err := server.Restart(deadline(t)); !errors.Is(err, localpg.ErrStopped) {
		t.Errorf("Restart after Stop: %v, want ErrStopped", err)
	}
}

func TestPasswordIsRequired(t *testing.T) {
	t.Parallel()
	server := start(t, localpg.Config{})
	config, err := pgx.ParseConfig(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "wrong"
	if conn, err := pgx.ConnectConfig(deadline(t), config); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected with a wrong password")
	}
}

func TestDataDirIsKeptAndReused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := start(t, localpg.Config{DataDir: dir})
	exec(t, connect(t, first.URL()), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	if got := queryText(t, connect(t, first.URL()), "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s for a directory that is kept, want on", got)
	}
	if err := first.Stop(deadline(t)); err != nil {
		t.Fatal(err)
	}
	second := start(t, localpg.Config{DataDir: dir})
	if got := queryText(t, connect(t, second.URL()), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("got %q from the reused directory", got)
	}
}

func TestDataDirInUseIsRefusedAndUntouched(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := start(t, localpg.Config{DataDir: dir})
	if second, err := localpg.Start(deadline(t), localpg.Config{DataDir: dir}); err == nil {
		_ = second.Stop(deadline(t))
		t.Fatal("two servers on one directory")
	} else if !strings.Contains(err.Error(), "postmaster.pid") {
		t.Errorf("error %q does not quote the server", err)
	}
	if got := queryText(t, connect(t, first.URL()), "SELECT 'alive'"); got != "alive" {
		t.Error("the first server suffered")
	}
}

func TestForeignDataDirIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious := filepath.Join(dir, "PG_VERSION")
	if err := os.WriteFile(precious, []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := localpg.Start(deadline(t), localpg.Config{DataDir: dir}); !errors.Is(err, localpg.ErrForeignDataDir) {
		t.Errorf("got %v, want ErrForeignDataDir", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v (%v), want PG_VERSION alone", entries, err)
	}
}

func TestMissingBinariesNameTheWaysOut(t *testing.T) {
	t.Parallel()
	_, err := localpg.Start(deadline(t), localpg.Config{BinDir: t.TempDir()})
	if !errors.Is(err, localpg.ErrNoBinaries) {
		t.Fatalf("got %v, want ErrNoBinaries", err)
	}
	for _, way := range []string{"apt-get install postgresql", "--database-url"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("error %q does not name %q", err, way)
		}
	}
}

func TestCrashesAreRecoveredUnderTheSameURL(t *testing.T) {
	t.Parallel()
	crashes := map[string]func(*localpg.Server, context.Context) error{
		"immediate": (*localpg.Server).StopImmediate,
		"kill":      (*localpg.Server).Kill,
	}
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, localpg.Config{})
			url := server.URL()
			conn := connect(t, url)
			exec(t, conn, "CREATE TABLE ledger (entry text)")
			exec(t, conn, "INSERT INTO ledger VALUES ('committed')")
			exec(t, conn, "BEGIN")
			exec(t, conn, "INSERT INTO ledger VALUES ('open')")
			busy := make(chan error, 1)
			other := connect(t, url)
			ctx := deadline(t)
			go func() {
				// A loop that computes never looks whether its server is still there.
				_, err := other.Exec(ctx, "DO 'BEGIN LOOP END LOOP; END'")
				busy <- err
			}()
			ended := server.Done()
			if err := crash(server, deadline(t)); err != nil {
				t.Fatal(err)
			}
			<-ended
			if err := <-busy; err == nil {
				t.Error("a backend outlived the crash")
			}
			if err := server.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if got := queryText(t, connect(t, url), "SELECT string_agg(entry, ',') FROM ledger"); got != "committed" {
				t.Errorf("ledger holds %q after recovery, want the committed entry alone", got)
			}
		})
	}
}

func TestRestartOfARunningServer(t *testing.T) {
	t.Parallel()
	server := start(t, localpg.Config{})
	before := queryText(t, connect(t, server.URL()), "SELECT pg_postmaster_start_time()::text")
	if err := server.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	after := queryText(t, connect(t, server.URL()), "SELECT pg_postmaster_start_time()::text")
	if before == after {
		t.Error("the server was not restarted")
	}
}

func TestStopAfterItsContextLeavesNothing(t *testing.T) {
	t.Parallel()
	server, err := localpg.Start(deadline(t), localpg.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := server.Done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
	<-ended
	if _, err := os.Stat(server.DataDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary directory: %v, want it gone", err)
	}
}

func TestStartHonoursItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := localpg.Start(ctx, localpg.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestConfigRefusesWhatItWouldBreak(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"port": {"port": "5432"}, "listen_addresses": {"Listen_Addresses": "*"},
		"not a parameter name": {"a b": "1"}, "zero byte": {"work_mem": "\x00"},
	} {
		err := localpg.Config{Settings: settings}.Validate()
		if !errors.Is(err, localpg.ErrInvalidConfig) {
			t.Errorf("%s: got %v, want ErrInvalidConfig", name, err)
		}
	}
	_, err := localpg.Start(deadline(t), localpg.Config{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("an unknown setting gave %v, want the server's own words", err)
	}
}

func ExampleStart() {
	ctx := context.Background()
	server, err := localpg.Start(ctx, localpg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Stop(ctx) }()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	var answer int
	fmt.Println(conn.QueryRow(ctx, "SELECT 6 * 7").Scan(&answer), answer)
	// Output: <nil> 42
}
