package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/ledger"
)

// calm is the time before the first fault, drain that after the load.
const (
	calm  = "calm"
	drain = "drain"
)

// breach counts what was seen after one kind of fault and before the next.
type breach struct {
	Reordered int `json:"reordered"`
	Doubled   int `json:"doubled"`
}

// result is what became of a relay.
type result struct {
	Relay    string         `json:"relay"`
	Settings string         `json:"settings"`
	Faults   map[string]int `json:"faults"`
	Events   int            `json:"events"` // committed
	Lost     int            `json:"lost"`
	// Late are committed events that the relay still had in its tables when patience ended: they are not lost.
	Late int `json:"late"`
	// Reordered came after newer events of their stream, PartitionReversals after newer ones of their partition.
	Reordered          int `json:"reordered"`
	PartitionReversals int `json:"partition_reversals"`
	Doubled            int `json:"doubled"`
	// Other are rolled back or unknown events that were published, and altered ones.
	Other int `json:"other"`
	// Standstill is the longest time between two receptions under load, Longest the longest from a commit to its reception.
	Standstill      float64           `json:"longest_standstill_seconds"`
	StandstillAfter string            `json:"standstill_after"`
	Longest         float64           `json:"longest_wait_seconds"`
	Restarts        int               `json:"restarts"` // of processes that ended by themselves
	After           map[string]breach `json:"after"`
}

func (r result) kept() bool {
	return r.Lost+r.Late+r.Reordered+r.PartitionReversals+r.Doubled+r.Other == 0 && r.Events > 0
}

// tally judges what is received, and remembers which fault came last.
type tally struct {
	checker *ledger.Checker

	mu         sync.Mutex
	after      string
	breaches   map[string]breach
	last       time.Time // reception; zero while standstills are not measured
	standstill time.Duration
	stoodAfter string
}

func newTally(t *testing.T, l *ledger.Ledger) *tally {
	t.Helper()
	checker, err := ledger.NewChecker(ledger.Config{Ledger: l, Ordering: ledger.ByStream, FaultsKept: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	return &tally{checker: checker, after: calm, breaches: map[string]breach{}}
}

// begins notes that a fault begins.
func (y *tally) begins(fault string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if fault == drain {
		y.stoodLocked(time.Now())
		y.last = time.Time{}
	}
	y.after = fault
}

// receive judges one message. They come in stored order.
func (y *tally) receive(m ledger.Message) {
	m.ReceivedAt = time.Now()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, f := range y.checker.Receive(m) {
		b := y.breaches[y.after]
		switch f.Kind {
		case ledger.KindReorderedStream:
			b.Reordered++
		case ledger.KindDuplicate:
			b.Doubled++
		}
		y.breaches[y.after] = b
	}
	if y.after != drain {
		y.stoodLocked(m.ReceivedAt)
		y.last = m.ReceivedAt
	}
}

func (y *tally) stoodLocked(now time.Time) {
	if d := now.Sub(y.last); !y.last.IsZero() && d > y.standstill {
		y.standstill, y.stoodAfter = d, y.after
	}
}

// result sums up. waiting are the events that the relay still has.
func (y *tally) result(r relay, faults map[string]int, waiting []uuid.UUID) result {
	report := y.checker.Report()
	y.mu.Lock()
	defer y.mu.Unlock()
	late := 0
	for _, f := range report.Faults {
		if f.Kind == ledger.KindLost && slices.Contains(waiting, f.EventID) {
			late++
		}
	}
	return result{
		Relay: r.name, Settings: r.settings, Faults: faults, Events: report.Committed, Lost: report.Lost - late, Late: late,
		Reordered: report.Reordered, PartitionReversals: report.PartitionReversals, Doubled: report.Duplicates,
		Other:      report.Phantoms + report.Altered + report.LedgerFaults,
		Standstill: y.standstill.Seconds(), StandstillAfter: y.stoodAfter, Longest: report.LatencyMax, After: maps.Clone(y.breaches),
	}
}

// findings are the results of all relays, as they are written.
type findings struct {
	Date     string   `json:"date"`
	Seed     uint64   `json:"seed"`
	Duration string   `json:"duration"`
	Accounts int      `json:"accounts"` // that a transaction may change
	Results  []result `json:"results"`
}

func (f findings) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(f)
}

// table is for a terminal of 80 columns.
func (f findings) table(out io.Writer) {
	const line = "%-20s %6v %6v %4v %4v %6v %6v %7v %5v %5v\n"
	fmt.Fprintf(out, line, "", "", "", "", "", "reor-", "dered", "", "long-", "est s")
	fmt.Fprintf(out, line, "relay", "faults", "events", "lost", "late", "stream", "part.", "doubled", "still", "wait")
	for _, r := range f.Results {
		faults := 0
		for _, n := range r.Faults {
			faults += n
		}
		fmt.Fprintf(out, line, r.Relay, faults, r.Events, r.Lost, r.Late, r.Reordered, r.PartitionReversals, r.Doubled,
			fmt.Sprintf("%.1f", r.Standstill), fmt.Sprintf("%.1f", r.Longest))
	}
	for _, r := range f.Results {
		var words []string
		for _, fault := range slices.Sorted(maps.Keys(r.After)) {
			if b := r.After[fault]; b != (breach{}) {
				words = append(words, fmt.Sprintf("%s: %d reordered, %d doubled", fault, b.Reordered, b.Doubled))
			}
		}
		if r.Other > 0 {
			words = append(words, fmt.Sprintf("%d rolled back or altered", r.Other))
		}
		if r.Restarts > 0 {
			words = append(words, fmt.Sprintf("%d processes ended by themselves", r.Restarts))
		}
		if len(words) > 0 {
			fmt.Fprintf(out, "\n%s\n  %s\n", r.Relay, strings.Join(words, "\n  "))
		}
	}
}
