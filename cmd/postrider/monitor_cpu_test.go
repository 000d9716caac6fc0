package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ticks is how often a second the kernel counts the use of a processor.
const ticks = 100

// serverCPU is the first process of a PostgreSQL server.
type serverCPU struct{ postmaster int }

// findServer needs a server on this machine, with /proc.
func findServer(b *testing.B, pool *pgxpool.Pool) serverCPU {
	b.Helper()
	var backend int
	if err := pool.QueryRow(b.Context(), `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		b.Fatal(err)
	}
	p, err := readProcess(backend)
	if err != nil {
		b.Skipf("the server's processes cannot be seen: %v", err)
	}
	return serverCPU{postmaster: p.parent}
}

// process is what /proc tells of one, in ticks.
type process struct {
	parent      int
	own, waited int64 // waited is what children used that have ended
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	_, rest, found := strings.Cut(string(text), ") ") // a name may hold anything but that
	fields := strings.Fields(rest)
	if !found || len(fields) < 15 {
		return process{}, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var numbers [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} {
		if numbers[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return process{}, err
		}
	}
	return process{parent: int(numbers[0]), own: numbers[1] + numbers[2], waited: numbers[3] + numbers[4]}, nil
}

// all is what the whole server has used since its start, in ticks.
func (s serverCPU) all(b *testing.B) int64 {
	b.Helper()
	p, err := readProcess(s.postmaster)
	if err != nil {
		b.Fatal(err)
	}
	sum := p.own + p.waited
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if child, err := readProcess(pid); err == nil && child.parent == s.postmaster { // it may have ended
			sum += child.own
		}
	}
	return sum
}

// shares are parts of a core.
type shares struct{ workers, all float64 }

// watch measures the sessions of workers, and the whole server, for a while.
func (w *benchWorld) watch(b *testing.B, length time.Duration) shares {
	b.Helper()
	first, last := map[int]int64{}, map[int]int64{}
	look := func() {
		rows, err := w.pool.Query(b.Context(), `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'postrider %'`)
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var pid int
			if err := rows.Scan(&pid); err != nil {
				b.Fatal(err)
			}
			p, err := readProcess(pid)
			if err != nil {
				continue // it has ended
			}
			if _, known := first[pid]; !known {
				first[pid] = p.own
			}
			last[pid] = p.own
		}
	}
	began, before := time.Now(), w.server.all(b)
	look()
	for time.Since(began) < length {
		w.wait(b, min(5*time.Second, length))
		look()
	}
	took := time.Since(began).Seconds() * ticks
	var sum int64
	for pid := range last {
		sum += last[pid] - first[pid]
	}
	return shares{workers: float64(sum) / took, all: float64(w.server.all(b)-before) / took}
}
