//go:build matrix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// results are what became of the cells.
type results struct {
	mu    sync.Mutex
	found map[cell]string
	lines []string
}

func (r *results) note(t *testing.T, c cell, began time.Time) {
	t.Helper()
	how, text := c.storing(), "passed"
	if t.Failed() {
		how, text = "**fails**", "FAILED"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[c] = how
	r.lines = append(r.lines, fmt.Sprintf("%s, %s (%s, %s): %s, %.1f s\n", c, c.storing(), c.database.packaged, c.broker.version, text, time.Since(began).Seconds()))
}

// publish keeps what was found for who ran the cells, and in the documents if all of them passed.
func (r *results) publish(t *testing.T) {
	t.Helper()
	found := table(func(c cell) string {
		if how := r.found[c]; how != "" {
			return how
		}
		return "not tried"
	})
	if err := os.WriteFile(filepath.Join(root, "bin", "matrix.txt"), []byte(strings.Join(r.lines, "")+"\n"+found), 0o644); err != nil {
		t.Error(err)
	}
	if t.Failed() || len(r.found) < len(cells()) {
		return
	}
	if err := write(filepath.Join(root, page), found); err != nil {
		t.Error(err)
	}
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	folder := servers(os.Getenv("POSTRIDER_SERVERS"))
	if folder == "" {
		t.Fatal("POSTRIDER_SERVERS does not say where the servers are: make test/matrix does")
	}
	tried := chosen(os.Getenv("POSTRIDER_SHORT") != "")
	found := &results{found: map[cell]string{}}
	t.Cleanup(func() { found.publish(t) }) // after all cells
	for _, d := range databases() {
		var own []cell
		for _, c := range tried {
			if c.database == d {
				own = append(own, c)
			}
		}
		if len(own) == 0 {
			continue
		}
		t.Run(fmt.Sprintf("PostgreSQL %d", d.major), func(t *testing.T) {
			t.Parallel()
			server := pgtest.Server(t, localpg.Config{BinDir: folder.programs(d)})
			for _, c := range own { // one at a time: roles are the server's
				t.Run(c.String(), func(t *testing.T) {
					began := time.Now()
					t.Cleanup(func() { found.note(t, c, began) }) // after everything else
					newShop(t, c, server.URL(), startBroker(t, folder.program(c.broker), c.broker)).journey(t)
				})
			}
		})
	}
}
