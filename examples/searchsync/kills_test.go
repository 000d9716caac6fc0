package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/examples/searchsync/meilitest"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// program is searchsync run as a process, which a test kills and starts again.
type program struct {
	*process

	address string
	start   func() (*process, string)
}

func newProgram(t *testing.T, environment []string, flags ...string) *program {
	t.Helper()
	p := &program{start: func() (*process, string) {
		return launch(t, environment, true, append([]string{"run", "--listen=127.0.0.1:0", "--backoff=20ms", "--backoff-max=" + mostBackoff.String(), "--lease-ttl=1s"}, flags...)...)
	}}
	p.process, p.address = p.start()
	return p
}

// crash kills it and starts another one.
func (p *program) crash() {
	p.kill()
	p.process, p.address = p.start()
}

// command runs a command of the client and returns what it prints.
func (p *program) command(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := run(ctx, append([]string{args[0], "--server=" + p.address}, args[1:]...), &stdout, &stderr)
	return stdout.String(), err
}

// kill9 imports, changes and deletes while workers and programs are killed, and looks at the result with the commands.
// calm ends the storm that the index is in, if any, when every event is dealt with.
func kill9(t *testing.T, c *clustertest.Cluster, calm func(), programs ...*program) {
	t.Helper()
	st, err := newStore(t.Context(), c.Pool)
	if err != nil {
		t.Fatal(err)
	}
	workers := c.Start(t, 2, "--lease-ttl=2s")
	documents := numbered(120)
	if err := st.save(t.Context(), documents...); err != nil {
		t.Fatal(err)
	}
	for i, d := range documents {
		switch i % 5 {
		case 1:
			d.Title += " changed"
			err = st.save(t.Context(), d)
		case 3:
			err = st.remove(t.Context(), d.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%50 == 25 {
			c.WaitCount(t, i, `SELECT count(*) FROM inbox_streams WHERE version > 0`)
			programs[i/50%len(programs)].crash()
		}
		if i == 60 {
			workers[0].Signal(t, syscall.SIGKILL)
		}
	}
	s := &syncer{store: st}
	s.wantWorked(t)
	calm()
	p := programs[0]
	if text, err := p.command(t.Context(), "check", "--settle=30s"); err != nil || !strings.Contains(text, "96 documents, 96 in the index: 0 missing, 0 stale, 0 extra") {
		t.Errorf("check gives %v:\n%s\n%s", err, text, p.text())
	}
	if text, err := p.command(t.Context(), "search", "number41"); err != nil || !strings.Contains(text, "number41 changed") {
		t.Errorf("search gives %v:\n%s", err, text)
	}
	if text, err := p.command(t.Context(), "search", "number43"); err != nil || text != "" {
		t.Errorf("searching for what was deleted gives %v:\n%s", err, text)
	}
	mendTampered(t, c, st, p)
}

// mendTampered changes the database behind the events' back: check tells, repair and reindex mend.
func mendTampered(t *testing.T, c *clustertest.Cluster, st *store, p *program) {
	t.Helper()
	for _, mend := range []string{"repair", "reindex"} {
		_, err := c.Pool.Exec(t.Context(), `UPDATE documents SET title = 'tampered ' || version, version = version + 1 WHERE id < 'd/0003'`)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := p.command(t.Context(), "check", "--settle=0s"); !errors.Is(err, errDifferences) || !strings.Contains(text, "0 missing, 3 stale, 0 extra") {
			t.Errorf("check gives %v:\n%s", err, text)
		}
		if text, err := p.command(t.Context(), mend); err != nil {
			t.Errorf("%s gives %v:\n%s", mend, err, text)
		}
		if text, err := p.command(t.Context(), "check", "--settle=0s"); err != nil {
			t.Errorf("check after %s gives %v:\n%s", mend, err, text)
		}
	}
	if text, err := p.command(t.Context(), "parked"); err != nil || strings.Count(text, "\n") != 1 {
		t.Errorf("parked gives %v:\n%s", err, text)
	}
	// Events go on to arrive at the index that was swapped in.
	if err := st.save(t.Context(), document{ID: "later", Title: "afterwards"}); err != nil {
		t.Fatal(err)
	}
	clustertest.Until(t, "a later document is found", func(ctx context.Context) (bool, error) {
		text, err := p.command(ctx, "search", "afterwards")
		return strings.Contains(text, "later"), err
	}, p.text)
}

func TestKillsWithBleve(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	kill9(t, c, func() {}, newProgram(t, c.Environment(), "--dir="+filepath.Join(t.TempDir(), "index")))
}

// Two processes share the work.
func TestKillsWithMeilisearch(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	fixture := meilitest.Start(t)
	stormy(fixture)
	environment := append(c.Environment(), "MEILI_API_KEY="+fixture.Key)
	flags := []string{"--index=meilisearch", "--meili-url=" + fixture.URL}
	programs := []*program{newProgram(t, environment, flags...), newProgram(t, environment, flags...)}
	kill9(t, c, func() { fixture.SetFault(nil) }, programs...)
}

// Bad settings are refused by name.
func TestSettings(t *testing.T) {
	t.Setenv("DATABASE_URL", pgtest.Migrated(t, 1))
	t.Setenv("NATS_URL", natstest.Start(t, 1).URL())
	for args, want := range map[string]string{
		"":                  "name a command",
		"walk":              `"walk"`,
		"save x":            "takes 3 arguments, got 1",
		"run --index=paper": "--index",
		"run --backoff=0s":  "--backoff",
		"run --lease-ttl=0": "--lease-ttl",
		"run --index=meilisearch --meili-url=nowhere": "--meili-url",
		"save " + strings.Repeat("x", 301) + " t b":   "1 to 300 bytes, got 301",
		"save x t \x00":                             "without zero bytes",
		"check --server=http://127.0.0.1:1":         "--server",
		"run --listen=nowhere --dir=" + t.TempDir(): "--listen",
	} {
		var stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &stderr, &stderr)
		if err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q gives %v, want %q in it", args, err, want)
		}
	}
}
