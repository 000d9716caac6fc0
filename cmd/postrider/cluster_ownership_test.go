package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/ui"
)

// historyOf is what `partitions history` tells of one partition, in words, the newest
// first; names are those of its workers.
func historyOf(t *testing.T, c *clustertest.Cluster, n int, names map[uuid.UUID]string) (lines []string, changes []ui.ChangeBody) {
	t.Helper()
	code, stdout, stderr := call(t, "partitions", "history", fmt.Sprint(n), "--json", "--database-url="+c.DatabaseURL)
	if code != exitOK {
		t.Fatal(stderr)
	}
	name := func(h *ui.OwnerBody) string {
		if h == nil {
			return "nobody"
		}
		if here, err := os.Hostname(); err != nil || h.Hostname != here {
			t.Errorf("%s ran on %q, want %q: %v", h.ID, h.Hostname, here, err)
		}
		if known := names[h.ID]; known != "" {
			return known
		}
		return "another"
	}
	changes = read[[]ui.ChangeBody](t, stdout)
	for _, one := range changes {
		lines = append(lines, fmt.Sprint(one.Kind, " ", name(one.From), " ", name(one.To)))
	}
	return lines, changes
}

// Who had a partition is known when every process of then is gone: a handover, a
// takeover from a worker that died, with both their names, and all of it through
// restarts, a pause and a resize.
func TestOwnershipOutlivesEveryProcess(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4, Flags: shortTTL()})
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Every: 10 * time.Millisecond})
	names := map[uuid.UUID]string{}
	start := func(name string) *clustertest.Worker {
		t.Helper()
		w := c.Start(t, 1)[0]
		names[w.ID] = name
		return w
	}
	first := start("first")
	c.WaitShared(t, first)
	second := start("second")
	c.WaitShared(t, first, second)
	owners, err := c.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	given, kept := -1, -1
	for n, owner := range owners {
		if owner == second.ID {
			given = n
		} else {
			kept = n
		}
	}
	changes := c.Count(t, `SELECT count(*) FROM outbox_ownership`)
	operate(t, c, "partitions", "pause", fmt.Sprint(given), "--reason=test")
	operate(t, c, "partitions", "resume", fmt.Sprint(given), "--reason=test")
	if n := c.Count(t, `SELECT count(*) FROM outbox_ownership`); n != changes {
		t.Errorf("a pause made %d changes of ownership", n-changes)
	}
	load.WaitCommitted(t, 100)
	first.Signal(t, syscall.SIGKILL)
	first.Exit(t)
	c.WaitHeld(t, second)
	load.Stop(t)
	c.Verify(t)
	second.Signal(t, syscall.SIGKILL)
	second.Exit(t)
	died := time.Now()
	if _, err := c.Pool.Exec(t.Context(), `DELETE FROM outbox_workers`); err != nil { // as it is ten minutes later
		t.Fatal(err)
	}
	third := start("third")
	c.WaitHeld(t, third)

	want := []string{"taken-over second third", "moved first second", "released first nobody", "taken nobody first"}
	if lines, _ := historyOf(t, c, given, names); !slices.Equal(lines, want) {
		t.Errorf("partition %d: %q, want %q", given, lines, want)
	}
	want = []string{"taken-over second third", "taken-over first second", "taken nobody first"}
	lines, told := historyOf(t, c, kept, names)
	if !slices.Equal(lines, want) {
		t.Errorf("partition %d: %q, want %q", kept, lines, want)
	} else if over := told[0]; over.LeaseUntil == nil || !over.LeaseUntil.Before(over.At) {
		t.Errorf("it was taken over at %s, and the lease ended at %v", over.At, over.LeaseUntil)
	}
	code, stdout, stderr := call(t, "partitions", "history", fmt.Sprint(kept), "--until="+died.UTC().Format(time.RFC3339Nano), "--limit=1", "--database-url="+c.DatabaseURL)
	if code != exitOK || !strings.Contains(stdout, second.ID.String()[30:]) || strings.Contains(stdout, third.ID.String()[30:]) || !strings.Contains(stdout, "the history begins") {
		t.Errorf("when the second one died: %s%s", stdout, stderr)
	}
	third.Signal(t, syscall.SIGTERM)
	third.Exit(t)
	operate(t, c, "partitions", "resize", "3", "--yes", "--reason=test")
	monitor := &clustertest.Worker{Process: clustertest.Launch(t, "monitor", c.Environment(), "monitor", "--http-addr=127.0.0.1:0")}
	if code, page := ask(t, monitor, http.MethodGet, "/ownership?partition=0", ""); code != http.StatusOK || !strings.Contains(page, "resizing") || !strings.Contains(page, first.ID.String()[30:]) {
		t.Errorf("the page answers %d: %.2000s", code, page)
	}
	for n, tail := range map[int][]string{0: {"released another nobody", "resizing third another", "released third nobody"}, 3: {"removed another nobody", "resizing third another", "released third nobody"}} {
		if lines, _ := historyOf(t, c, n, names); len(lines) < 3 || !slices.Equal(lines[:3], tail) {
			t.Errorf("after the resize partition %d: %q", n, lines)
		}
	}
}

func TestHistoryRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct{ args, says string }{
		{"-1", "partition"}, {"40000", "the partition must lie between 0 and 32766"}, {"--limit=0", "--limit"}, {"--since=soon", "--since"}, {"--until=tomorrow", "--until"},
	} {
		code, _, stderr := call(t, "partitions", "history", wrong.args, "--database-url=postgres://localhost:1/none")
		if code != exitRefused || !strings.Contains(stderr, wrong.says) {
			t.Errorf("%s: status %d, %q lacks %q", wrong.args, code, stderr, wrong.says)
		}
	}
}
