package faults_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// fault is one kind of what happens to a soak.
type fault struct {
	name   string
	part   string // of the system, as the report counts
	weight int
	strike func(*testing.T) (struck bool)
}

// surely is a strike that cannot miss.
func surely(strike func(*testing.T)) func(*testing.T) bool {
	return func(t *testing.T) bool { t.Helper(); strike(t); return true }
}

// The parts of the system that faults strike.
const (
	partWorkers   = "workers"
	partBrokers   = "brokers"
	partDatabase  = "database"
	partLinks     = "links"
	partProducers = "producers"
	partConsumers = "consumers"
)

// strikes are the faults of a soak, drawn from its seed and counted.
type strikes struct {
	random *rand.Rand
	kinds  map[string]int // of faults, by name
	parts  map[string]int // of faults, by part
	start  time.Time
}

func newStrikes(t *testing.T, seed uint64) *strikes {
	t.Helper()
	return &strikes{random: seeded(t, seed), kinds: map[string]int{}, parts: map[string]int{}}
}

// inject has one fault of a list happen.
func (s *strikes) inject(t *testing.T, list []fault) {
	t.Helper()
	total := 0
	for _, f := range list {
		total += f.weight
	}
	n := s.random.IntN(total)
	for _, f := range list {
		if n -= f.weight; n < 0 {
			s.strike(t, f)
			break
		}
	}
}

// strike has a fault happen, says when, and counts it if it struck.
func (s *strikes) strike(t *testing.T, f fault) {
	t.Helper()
	t.Logf("%7.2fs %s", time.Since(s.start).Seconds(), f.name)
	if !f.strike(t) {
		t.Log("it found nothing to strike")
		return
	}
	s.kinds[f.name]++
	s.parts[f.part]++
}

// sum counts the faults, and lists how many there were of each.
func (s *strikes) sum() (total int, kinds string) {
	var each []string
	for _, name := range slices.Sorted(maps.Keys(s.kinds)) {
		total += s.kinds[name]
		each = append(each, fmt.Sprintf("%s %d", name, s.kinds[name]))
	}
	return total, strings.Join(each, ", ")
}
