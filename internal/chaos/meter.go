package chaos

import (
	"slices"
	"sync"
	"time"
)

// quietKept is the counted end of the quiet time.
const quietKept = time.Minute

// Quiet is the latency from commit to reception between mishaps, over the last minute of such time.
type Quiet struct {
	P50, P99 time.Duration
	// Events is their number, Over the time.
	Events int
	Over   time.Duration
}

// meter times events while nothing is broken: those that were committed and received in one stretch of quiet.
type meter struct {
	mu       sync.Mutex
	since    time.Time // start of this stretch; zero while something is broken
	before   time.Duration
	samples  []sample
	received time.Time // commit time of the newest received event
}

type sample struct {
	at      time.Duration // in quiet time
	latency time.Duration
}

// add takes every first reception.
func (m *meter) add(committed, received time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if committed.After(m.received) {
		m.received = committed
	}
	if m.since.IsZero() || committed.Before(m.since) {
		return
	}
	m.samples = append(m.samples, sample{m.before + received.Sub(m.since), max(0, received.Sub(committed))})
}

// begin and end bound a stretch of quiet.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Now()
}

func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.since.IsZero() {
		m.before += time.Since(m.since)
		m.since = time.Time{}
	}
}

// hasSince reports whether an event was received that was committed after t.
func (m *meter) hasSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.received.After(t)
}

func (m *meter) quiet() Quiet {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.before
	if !m.since.IsZero() {
		now += time.Since(m.since)
	}
	old, _ := slices.BinarySearchFunc(m.samples, now-quietKept, func(s sample, t time.Duration) int { return int(s.at - t) })
	m.samples = slices.Delete(m.samples, 0, old)
	q := Quiet{Events: len(m.samples), Over: min(now, quietKept)}
	if q.Events == 0 {
		return q
	}
	latencies := make([]time.Duration, q.Events)
	for i, s := range m.samples {
		latencies[i] = s.latency
	}
	slices.Sort(latencies)
	q.P50, q.P99 = latencies[(q.Events-1)/2], latencies[(q.Events-1)*99/100]
	return q
}
