package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which the kernel counts the use of processors. Linux tells programs 100 a second on every platform.
const tick = 10 * time.Millisecond

// usage is the time that processors spent, by role.
type usage struct {
	at      time.Time
	roles   map[string]time.Duration
	machine time.Duration // all of the machine, its host's other guests included
}

// roles lists the processes of each role. A process counts with its children, dead and alive, where tree says so.
type roles map[string][]member

type member struct {
	pid  int
	tree bool
}

// The roles.
const (
	roleRelay    = "relay"
	rolePostgres = "postgres"
	roleNATS     = "nats"
	roleBench    = "bench"
	roleKernel   = "kernel"
)

// processStat holds fields of a process in /proc.
type processStat struct {
	parent      int
	own, waited time.Duration // waited is the use of ended children
}

func readProcess(pid int) (processStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	_, rest, found := strings.Cut(string(text), ") ") // a name may hold anything else
	fields := strings.Fields(rest)
	if !found || len(fields) < 15 {
		return processStat{}, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var numbers [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} {
		if numbers[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return processStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return processStat{
		parent: int(numbers[0]), own: time.Duration(numbers[1]+numbers[2]) * tick, waited: time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}

// measure reads the use of the processors now.
func (r roles) measure() (usage, error) {
	u := usage{at: time.Now(), roles: map[string]time.Duration{}}
	for role, members := range r {
		for _, m := range members {
			used, err := m.used()
			if err != nil {
				return usage{}, fmt.Errorf("use of processors by %s: %w", role, err)
			}
			u.roles[role] += used
		}
	}
	var err error
	u.machine, err = machineUsage()
	return u, err
}

func (m member) used() (time.Duration, error) {
	p, err := readProcess(m.pid)
	if err != nil || !m.tree {
		return p.own, err
	}
	sum := p.own + p.waited
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if child, err := readProcess(pid); err == nil && child.parent == m.pid { // it may have ended
			sum += child.own
		}
	}
	return sum, nil
}

// machineUsage returns the busy time of all processors. Time that the host took away counts.
func machineUsage() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("use of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	if len(fields) < 9 {
		return 0, fmt.Errorf("use of the machine: /proc/stat: %q", line)
	}
	var sum int64
	for i, field := range fields[1:9] {
		if i == 3 || i == 4 {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("use of the machine: /proc/stat: %w", err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
}

// spent is the use of processors between two measurements.
type spent struct {
	wall    time.Duration
	roles   map[string]time.Duration
	foreign float64 // share of all processors, 0 to 1
}

func (u usage) since(before usage) spent {
	s := spent{wall: u.at.Sub(before.at), roles: map[string]time.Duration{}}
	ours := time.Duration(0)
	for role, used := range u.roles {
		s.roles[role] = used - before.roles[role]
		ours += s.roles[role]
	}
	if all := s.wall * time.Duration(runtime.NumCPU()); all > 0 {
		s.foreign = min(1, max(0, float64(u.machine-before.machine-ours)/float64(all)))
	}
	return s
}

// perEvent returns a role's use, in microseconds for each of n events.
func (s spent) perEvent(role string, n int) float64 {
	return float64(s.roles[role]) / float64(time.Microsecond) / float64(max(1, n))
}

// percent returns a role's use, in percent of one processor.
func (s spent) percent(role string) float64 {
	return 100 * float64(s.roles[role]) / float64(max(1, s.wall))
}

// peakMemory returns the most memory that a process had, in MiB.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of the relay: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return 0, fmt.Errorf("memory of the relay: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("memory of the relay: /proc/%d/status does not say", pid)
}
