package main

import (
	"context"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// killedWhere runs a replay that stops where it changes its row so, and kills it there.
func killedWhere(t *testing.T, address, change string, flags ...string) {
	t.Helper()
	pool := pgtest.Pool(t, address)
	gate, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Release()
	for _, sql := range []string{
		`CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END'`,
		`CREATE TRIGGER halt BEFORE UPDATE ON outbox_replays FOR EACH ROW WHEN (` + change + `) EXECUTE FUNCTION halt()`,
		`SELECT pg_advisory_lock(4711)`,
	} {
		if _, err := gate.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p := clustertest.Launch(t, "replay", []string{"DATABASE_URL=" + address}, append([]string{"replay", "--all", "--yes"}, flags...)...)
	const waiting = `FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	clustertest.Until(t, "the replay has come there", func(ctx context.Context) (is bool, err error) {
		return is, pool.QueryRow(ctx, `SELECT EXISTS (SELECT `+waiting+`)`).Scan(&is)
	}, p.Stderr)
	p.Signal(t, syscall.SIGKILL)
	p.Exit(t)
	for _, sql := range []string{ // the server does not notice by itself that its client is gone
		`SELECT pg_terminate_backend(pid) ` + waiting, `SELECT pg_advisory_unlock(4711)`, `DROP TRIGGER halt ON outbox_replays`, `DROP FUNCTION halt`,
		`UPDATE outbox_replays SET updated_at = updated_at - interval '3 hours'`,
	} {
		if _, err := gate.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// A replay whose process was killed before it delivered anything is interrupted, as any other that was killed: the list says so and what to do, no
// other one begins meanwhile, and it goes on. What it has to select is not forgotten.
func TestAReplayKilledBeforeItBeganIsInterrupted(t *testing.T) {
	t.Parallel()
	const counting, beginning = "NEW.selected IS NOT NULL AND OLD.selected IS NULL", "NEW.runner IS NOT NULL"
	for name, test := range map[string]struct {
		change, flag, listed string
		code                 int
		says, after          string
	}{
		"while it was counted":                  {counting, "--rate=0", "0 of ?", exitOK, "queued 20 events again under generation 100", "done"},
		"while it was counted, another number":  {counting, "--expect=3", "0 of ?", exitRefused, "--expect 20 are selected, not 3", "cancelled"},
		"while it was counted, the same number": {counting, "--expect=20", "0 of ?", exitOK, "queued 20 events again under generation 100", "done"},
		"before it began":                       {beginning, "--rate=0", "0 of 20", exitOK, "queued 20 events again under generation 100", "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := replays(t)
			killedWhere(t, address, test.change, test.flag)
			on := func(args ...string) (int, string, string) { return call(t, append(args, "--database-url="+address)...) }
			code, list, stderr := on("replay", "list")
			if code != exitOK || strings.Contains(list, "planned") || !strings.Contains(list, "interrupted") || !strings.Contains(list, test.listed) {
				t.Errorf("status %d: %s%s", code, list, stderr)
			}
			if text := strings.Join(strings.Fields(list), " "); !strings.HasSuffix(text,
				"replay 1 was interrupted 3 hours ago; go on with: postrider replay resume 1, or end it with: postrider replay cancel 1") {
				t.Errorf("the list does not say what to do: %s", list)
			}
			complaint{[]string{"replay", "--all", "--yes", "--database-url=" + address}, exitRefused, []string{"another live replay is running", "postrider replay list"}}.check(t)
			if _, again, _ := on("replay", "list", "--json"); strings.Count(again, `"id"`) != 1 {
				t.Errorf("the refused one was made: %s", again)
			}
			code, stdout, stderr := on("replay", "resume", "1")
			if code != test.code || !strings.Contains(stdout+stderr, test.says) {
				t.Errorf("it goes on with status %d: %s%s", code, stdout, stderr)
			}
			if _, list, _ = on("replay", "list"); !strings.Contains(list, test.after) || strings.Contains(list, "postrider replay") {
				t.Errorf("afterwards: %s", list)
			}
		})
	}
}

// What is refused uses up no generation, and a planned replay says how it is begun.
func TestARefusedReplayHasNoGeneration(t *testing.T) {
	t.Parallel()
	address := replays(t)
	on := func(args ...string) (int, string, string) { return call(t, append(args, "--database-url="+address)...) }
	for range 3 {
		complaint{[]string{"replay", "--all", "--yes", "--expect=3", "--database-url=" + address}, exitRefused, []string{"--expect 20 are selected, not 3; nothing was replayed"}}.check(t)
	}
	if code, stdout, stderr := on("replay", "--all", "--yes", "--prepare", "--expect=20"); code != exitOK || !strings.Contains(stdout, "replay 4 is planned for 20 events") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	planned := regexp.MustCompile(`replay 4 is planned, made (now|\d+ \w+ ago) and never begun; begin it with: postrider replay resume 4, or end it with: postrider replay cancel 4`)
	if _, list, _ := on("replay", "list"); !planned.MatchString(strings.Join(strings.Fields(list), " ")) {
		t.Errorf("the list says %s", list)
	}
	if code, stdout, stderr := on("replay", "resume", "4"); code != exitOK || !strings.Contains(stdout, "under generation 100") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
}
