package localpg_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
)

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	// A folder of its own, so that the start below sweeps only what this test abandoned.
	temporary, err := os.MkdirTemp("", "localpg-orphan-") //nolint:usetesting // The server's user cannot enter t.TempDir of root.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	if err := os.Chmod(temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	parent := osexec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1", "TMPDIR="+temporary)
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var address, dataDir string
	for lines := bufio.NewScanner(stdout); address == "" && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "server "); ok {
			address, dataDir, _ = strings.Cut(rest, " ")
		}
	}
	if address == "" {
		_ = parent.Process.Kill()
		t.Fatal("the parent did not start a server")
	}
	conn := connect(t, address)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.

	ctx := deadline(t)
	if _, err := conn.Exec(ctx, "SELECT pg_sleep(3600)"); err == nil || ctx.Err() != nil {
		t.Fatalf("the session goes on after its server's parent was killed: %v", err)
	}
	waitForRefusal(ctx, t, address)

	abandoned := filepath.Dir(dataDir)
	if _, err := os.Stat(abandoned); err != nil {
		t.Fatalf("abandoned directory: %v", err)
	}
	sweeper := osexec.CommandContext(ctx, os.Args[0])
	sweeper.Env = parent.Env // Its standard input is at its end, so it starts a server and ends.
	if output, err := sweeper.CombinedOutput(); err != nil {
		t.Fatalf("second parent: %v\n%s", err, output)
	}
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("the abandoned directory was not removed by the next start: %v", err)
	}
}

// waitForRefusal waits until nothing listens at the address any more.
func waitForRefusal(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := net.Dial("tcp", parsed.Host)
		if err != nil {
			return
		}
		_ = conn.Close()
		select {
		case <-ctx.Done():
			t.Fatal("the server outlived its parent")
		case <-ticker.C:
		}
	}
}

func TestUnplannedEndIsReported(t *testing.T) {
	t.Parallel()
	records := make(recordChannel, 10)
	server := start(t, localpg.Config{Logger: slog.New(slog.NewTextHandler(records, nil))})
	ended := server.Done()
	content, err := os.ReadFile(filepath.Join(server.DataDir(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(content))[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-ended
	ctx := deadline(t)
	for {
		select {
		case record := <-records:
			if strings.Contains(record, "ended by itself") {
				if !strings.Contains(record, "immediate shutdown") {
					t.Errorf("the record does not quote the server: %s", record)
				}
				return
			}
		case <-ctx.Done():
			t.Fatal("nothing was reported")
		}
	}
}

// recordChannel passes log records on.
type recordChannel chan string

func (r recordChannel) Write(record []byte) (int, error) {
	r <- string(record)
	return len(record), nil
}
