package condition

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The sources that report.
const (
	Connection = "connection" // to the broker
	Stream     = "stream"
	Database   = "database"
	Delivery   = "delivery"
	Leases     = "leases"
	Heartbeat  = "heartbeat"
)

// Condition is one thing that keeps the process from delivering.
type Condition struct {
	Reason Reason
	// Detail is the error, at most 1000 bytes.
	Detail string
	// Since is the time of the first report.
	Since time.Time
}

// Board holds the conditions that stop a process's deliveries. It is safe for concurrent use; a nil Board takes every report, lists none.
type Board struct {
	judges []Judge
	log    *slog.Logger

	mu      sync.Mutex
	entries map[string]entry
	since   map[Reason]time.Time
	changed []func()
}

type entry struct {
	Condition
	until time.Time // zero: until the source reports again
}

// NewBoard returns an empty board. The first judge that knows an error decides.
func NewBoard(log *slog.Logger, judges ...Judge) *Board {
	return &Board{judges: judges, log: log, entries: map[string]entry{}, since: map[Reason]time.Time{}}
}

// OnChange has the function called whenever List changes its reasons; it must not block. It is for the time of wiring.
func (b *Board) OnChange(changed func()) { b.changed = append(b.changed, changed) }

// Report takes the error that stopped a source; nil: it goes on.
func (b *Board) Report(source string, err error) { b.ReportFor(source, err, 0) }

// ReportFor is Report for a condition that ends by itself after lasting, unless it is reported again; 0: never.
func (b *Board) ReportFor(source string, err error, lasting time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.entries[source]; err == nil && !there {
		return
	}
	before := reasonsOf(b.listLocked())
	if err == nil {
		delete(b.entries, source)
	} else {
		e := entry{Condition: Condition{Reason: b.judge(source, err), Detail: clip(err.Error())}}
		if lasting > 0 {
			e.until = time.Now().Add(lasting)
		}
		b.entries[source] = e
	}
	b.noteLocked(before)
}

func (b *Board) judge(source string, err error) Reason {
	if told, ok := errors.AsType[*Error](err); ok {
		return told.Reason
	}
	for _, judge := range append(b.judges, ofDatabase) {
		if r := judge(err); r != "" {
			return r
		}
	}
	switch {
	case source == Database || source == Heartbeat || source == Leases, errors.Is(err, context.DeadlineExceeded):
		return DatabaseAway
	}
	return Other
}

// noteLocked logs the changes.
func (b *Board) noteLocked(before []Reason) {
	list := b.listLocked()
	after := reasonsOf(list)
	if slices.Equal(before, after) {
		return
	}
	for _, c := range list {
		if !slices.Contains(before, c.Reason) {
			b.log.Warn("nothing can be delivered", "reason", string(c.Reason), "error", c.Detail)
		}
	}
	if len(after) == 0 {
		b.log.Info("nothing keeps from delivering any more")
	}
	for _, changed := range b.changed {
		changed()
	}
}

func reasonsOf(list []Condition) []Reason {
	var reasons []Reason
	for _, c := range list {
		reasons = append(reasons, c.Reason)
	}
	return reasons
}

// List returns the conditions, those that explain most first.
func (b *Board) List() []Condition {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listLocked()
}

func (b *Board) listLocked() []Condition {
	now := time.Now()
	sources := make([]string, 0, len(b.entries))
	for source, e := range b.entries {
		if !e.until.IsZero() && now.After(e.until) {
			delete(b.entries, source)
			continue
		}
		sources = append(sources, source)
	}
	slices.SortFunc(sources, func(x, y string) int {
		return cmp.Or(b.entries[x].Reason.rank()-b.entries[y].Reason.rank(), strings.Compare(x, y))
	})
	var list []Condition
	told := map[server]bool{}
	for _, source := range sources {
		c := b.entries[source].Condition
		about := known[c.Reason.rank()].server
		if told[about] {
			continue
		}
		told[about] = true
		if b.since[c.Reason].IsZero() {
			b.since[c.Reason] = now
		}
		c.Since = b.since[c.Reason]
		list = append(list, c)
	}
	for r := range b.since {
		if !slices.ContainsFunc(list, func(c Condition) bool { return c.Reason == r }) {
			delete(b.since, r)
		}
	}
	return list
}

// First returns the condition that explains most, nil without any.
func (b *Board) First() *Condition {
	if list := b.List(); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// Err returns the conditions as one error, nil without any.
func (b *Board) Err() error {
	var parts []string
	for _, c := range b.List() {
		parts = append(parts, c.String())
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, "; "))
}

// String returns reason and detail in one line.
func (c Condition) String() string { return string(c.Reason) + ": " + c.Detail }

// longest bounds a kept error, in bytes: errors may quote data.
const longest = 1000

func clip(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", " "), "�")
	if line, _, more := strings.Cut(text, "\n"); more {
		text = line
	}
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	return text
}

// Describe implements prometheus.Collector.
func (b *Board) Describe(out chan<- *prometheus.Desc) { out <- paused }

// Collect implements prometheus.Collector: each reason, 1 for those that hold.
func (b *Board) Collect(out chan<- prometheus.Metric) {
	holds := map[Reason]bool{}
	for _, c := range b.List() {
		holds[c.Reason] = true
	}
	for _, r := range Reasons() {
		value := 0.0
		if holds[r] {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(paused, prometheus.GaugeValue, value, string(r))
	}
}

var paused = prometheus.NewDesc("outbox_delivery_paused",
	"1 while that keeps this worker from delivering, else 0.", []string{"reason"}, nil)
