package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/importer"
	"github.com/postrider/postrider/projection"
)

const history = "../../testdata/repo-history-12k.jsonl.gz"

// build makes the program and returns its path.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "projection")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	return path
}

// rig is a cluster with the program.
type rig struct {
	*clustertest.Cluster

	program string
}

func (r *rig) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PROJECTION_") }), r.Environment()...)
	return cmd
}

// ask runs the program to its end and reads the JSON that it writes.
func (r *rig) ask(t *testing.T, status int, into any, args ...string) {
	t.Helper()
	cmd := r.command(t.Context(), append(args, "--json")...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%v ended with %v, want status %d\n%s%s", args, err, status, &out, &log)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%v wrote %q: %v", args, &out, err)
	}
}

// killer runs the program, lets it apply some events, kills it, and begins anew until done is closed.
func (r *rig) killer(t *testing.T, done <-chan struct{}) (kills int) {
	t.Helper()
	const applied = `SELECT coalesce(sum(applied_version), 0)::bigint FROM files.projection_streams`
	for {
		cmd := r.command(context.WithoutCancel(t.Context()), "run", "--lease-ttl", "1s", "--sweep", "5s", "--batch", fmt.Sprint(1+rand.IntN(40)))
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return kills
		}
		var goal int64
		clustertest.Until(t, "some events are applied", func(ctx context.Context) (bool, error) {
			var n int64
			if err := r.Pool.QueryRow(ctx, applied).Scan(&n); err != nil {
				return false, nil // not there yet
			}
			if goal == 0 {
				goal = n + rand.Int64N(900)
			}
			select {
			case <-done:
				return true, nil
			default:
				return n > goal, nil
			}
		}, func() string { return log.String() })
		err := cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		if err != nil || cmd.ProcessState.ExitCode() >= 0 {
			t.Errorf("the program ended by itself: %v, %s\n%s", err, cmd.ProcessState, &log)
			return kills
		}
		select {
		case <-done:
			return kills
		default:
			kills++
		}
	}
}

// Real workers carry a real history, two processes project it and are killed again and again; at the end every event was
// applied once and in order, and a rebuild is equal. Then rows are deleted behind the projection's back.
func TestHistoryIsProjectedThroughKills(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	r := &rig{clustertest.New(t, clustertest.Config{Partitions: 16}), build(t)}
	r.Start(t, 2)
	done := make(chan struct{})
	counts := make(chan int, 2)
	for range 2 {
		go func() { counts <- r.killer(t, done) }()
	}
	events := r.load(t, 2500)
	r.WaitDrained(t)
	close(done)
	kills := <-counts + <-counts
	t.Logf("%d events, %d kills", events, kills)
	if kills < 5 {
		t.Errorf("%d kills, want 5 or more", kills)
	}
	var summary projection.Summary
	r.ask(t, 0, &summary, "run", "--until-current", "--sweep", "1s", "--lease-ttl", "1s")
	r.wantAll(t, events)
	if summary.Current != summary.Streams() || summary.EventsBehind != 0 {
		t.Errorf("summary %+v", summary)
	}

	r.exec(t, `DELETE FROM files.file_changes WHERE path IN (SELECT path FROM files.files WHERE changes > 20) AND version % 3 = 0`)
	r.exec(t, `DELETE FROM files.projection_streams WHERE stream_id IN (SELECT path FROM files.files ORDER BY path LIMIT 10)`)
	r.exec(t, `UPDATE files.projection_streams SET expected_version = 2 WHERE applied_version = 5`)
	var report projection.Report
	r.ask(t, 1, &report, "gaps", "detect", "--grace", "0s")
	kinds := map[projection.GapKind]int{}
	for _, g := range report.Gaps {
		kinds[g.Kind]++
	}
	if len(kinds) != 3 || kinds[projection.MissingWatermark] != 10 {
		t.Errorf("found %v", kinds)
	}
	var integrity projection.Integrity
	r.ask(t, 1, &integrity, "integrity")
	var repaired projection.Repaired
	r.ask(t, 0, &repaired, "gaps", "repair", "--grace", "0s")
	if len(repaired.Repaired) != len(report.Gaps) {
		t.Errorf("%d of %d gaps repaired", len(repaired.Repaired), len(report.Gaps))
	}
	r.wantAll(t, events)
}

// wantAll wants every event in the tables, no gaps, and an equal rebuild.
func (r *rig) wantAll(t *testing.T, events int) {
	t.Helper()
	if n := r.Count(t, `SELECT count(*) FROM files.file_changes`); n != events {
		t.Errorf("%d changes, want %d", n, events)
	}
	if n := r.Count(t, `SELECT count(*) FROM files.files AS f WHERE changes <> (SELECT count(*) FROM events AS e WHERE e.stream_id = f.path)
		OR last_commit <> (SELECT convert_from(payload, 'UTF8')::json ->> 'commit' FROM events AS e
			WHERE e.stream_id = f.path ORDER BY stream_version DESC LIMIT 1)`); n != 0 {
		t.Errorf("%d files are wrong", n)
	}
	var report projection.Report
	r.ask(t, 0, &report, "gaps", "detect", "--grace", "0s")
	var integrity projection.Integrity
	r.ask(t, 0, &integrity, "integrity")
	if !integrity.Equal || integrity.Events != int64(events) {
		t.Errorf("integrity %+v", integrity)
	}
}

func (r *rig) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := r.Pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// load imports the history at so many events a second, and returns how many there are.
func (r *rig) load(t *testing.T, rate float64) int {
	t.Helper()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := importer.New(importer.Config{Pool: r.Pool, Producer: producer, Topic: "repo", Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(history)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	result, err := files.Run(t.Context(), file, history)
	if err != nil {
		t.Fatal(err)
	}
	return result.Events
}
