package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is a checker's judgement so far. Only after Wait is it final: until then "lost" also counts messages in flight.
type Report struct {
	// Committed counts the events declared committed, and those of unknown outcome whose reception proves the commit; 0 without a ledger.
	Committed int `json:"committed"`
	// Received counts distinct events, foreign ones left out.
	Received int `json:"received"`
	Lost     int `json:"lost"`
	// Reordered counts events out of order, each once.
	Reordered int `json:"reordered"`
	// Duplicates counts all copies beyond the first, explained or not.
	Duplicates int `json:"duplicates"`
	// EventsPerSecond is Received over the time from the first declaration (without a ledger: the first reception) to the last reception.
	EventsPerSecond float64 `json:"events_per_second"`
	// Latency is in seconds from the commit's return to reception; 0 without a ledger.
	LatencyP50  float64 `json:"latency_p50_seconds"`
	LatencyP99  float64 `json:"latency_p99_seconds"`
	LatencyP999 float64 `json:"latency_p999_seconds"`
	LatencyMax  float64 `json:"latency_max_seconds"`

	Messages            int            `json:"messages"`
	Phantoms            int            `json:"phantoms"`
	Altered             int            `json:"altered"`
	VersionGaps         int            `json:"version_gaps"`
	EpochFaults         int            `json:"epoch_faults"`
	LedgerFaults        int            `json:"ledger_faults"`
	DuplicatesExplained int            `json:"duplicates_explained"`
	ExplainedBy         map[string]int `json:"explained_by,omitempty"`

	// Information, never a fault.
	Streams            int `json:"streams"`
	Partitions         int `json:"partitions_seen"`
	Redelivered        int `json:"redelivered"`
	Replayed           int `json:"replayed"`
	Foreign            int `json:"foreign"`
	Unknown            int `json:"unknown"`          // outcomes still unknown or open
	UnknownReceived    int `json:"unknown_received"` // of unknown outcome, but received
	PartitionReversals int `json:"partition_reversals"`

	// Finished reports whether the ledger's producers called Finish.
	Finished bool `json:"finished"`
	// Faults are the first of each kind, in the order they were found.
	Faults []Fault `json:"faults,omitempty"`
}

// OK reports whether every promise was kept. Explained duplicates are forgiven; a run that may have none records no explanations.
func (r Report) OK() bool {
	return r.Lost == 0 && r.Reordered == 0 && r.Duplicates == r.DuplicatesExplained &&
		r.Phantoms == 0 && r.Altered == 0 && r.VersionGaps == 0 && r.EpochFaults == 0 && r.LedgerFaults == 0
}

// String returns the report in a few lines for people.
func (r Report) String() string {
	var b strings.Builder
	verdict := "OK"
	if !r.OK() {
		verdict = "FAULTS"
	}
	fmt.Fprintf(&b, "%s: committed %d, received %d, lost %d, reordered %d, duplicates %d (%d explained), phantoms %d, altered %d",
		verdict, r.Committed, r.Received, r.Lost, r.Reordered, r.Duplicates, r.DuplicatesExplained, r.Phantoms, r.Altered)
	for _, count := range []struct {
		n    int
		name string
	}{{r.VersionGaps, "version gaps"}, {r.EpochFaults, "epoch faults"}, {r.LedgerFaults, "ledger faults"}, {r.UnknownReceived, "unknown but received"}} {
		if count.n != 0 {
			fmt.Fprintf(&b, ", %s %d", count.name, count.n)
		}
	}
	fmt.Fprintf(&b, "; %.0f events/s, latency p50 %.2f ms, p99 %.2f ms", r.EventsPerSecond, 1000*r.LatencyP50, 1000*r.LatencyP99)
	for _, f := range r.Faults {
		b.WriteString("\n  ")
		b.WriteString(f.String())
	}
	return b.String()
}

// Report sums up the receptions until now. With a ledger it reads every record, about 20 ms for a million events, and holds the others up
// meanwhile.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{
		Messages: c.messages, Received: c.received, Reordered: c.reordered, Duplicates: c.duplicates.total,
		Streams: len(c.places), Redelivered: c.redelivered, Replayed: c.replayed,
		PartitionReversals: c.byPartition,
		LatencyP50:         c.latency.quantile(0.50).Seconds(), LatencyP99: c.latency.quantile(0.99).Seconds(),
		LatencyP999: c.latency.quantile(0.999).Seconds(), LatencyMax: c.latency.max.Seconds(),
	}
	for _, at := range c.partitions {
		if at.sequence > 0 {
			r.Partitions++
		}
	}
	found := newFaultList(c.config.FaultsKept)
	start := c.firstAt
	if l := c.config.Ledger; l != nil {
		r.Committed, r.Finished = l.committed, l.finished
		if !l.started.IsZero() && (start.IsZero() || l.started.Before(start)) {
			start = l.started
		}
		c.settleLocked(&r, &found)
	}
	r.DuplicatesExplained, r.ExplainedBy = c.duplicates.explained()
	c.collectFaultsLocked(&r, &found)
	if span := c.lastAt.Sub(start); span > 0 {
		r.EventsPerSecond = float64(r.Received) / span.Seconds()
	}
	return r
}

// settleLocked judges every record of the ledger by its outcome.
func (c *Checker) settleLocked(r *Report, found *faultList) {
	l := c.config.Ledger
	for index := range l.records {
		record := &l.records[index]
		received := c.exact.received(index)
		switch {
		case record.outcome == committed && !received:
			r.Lost++
			found.add(l.fault(KindLost, record, "committed at %s, not received",
				time.Unix(0, record.committedAt).UTC().Format(time.RFC3339Nano)))
		case record.outcome == failed && received:
			r.Phantoms++
			found.add(l.fault(KindPhantom, record, "its transaction failed, yet it was published"))
		case record.outcome == unannounced && received && c.config.AllowForeign:
			r.Foreign++
			r.Received--
		case record.outcome == unannounced && received:
			r.Phantoms++
			found.add(l.fault(KindPhantom, record, "no producer declared it"))
		case record.outcome == unknown || record.outcome == open:
			if received {
				r.UnknownReceived++
				r.Committed++
			} else {
				r.Unknown++
			}
		}
	}
}

func (c *Checker) collectFaultsLocked(r *Report, found *faultList) {
	unexplained := 0
	for _, d := range c.duplicates.first {
		if _, ok := c.duplicates.reason(d.at); !ok && unexplained < c.config.FaultsKept {
			unexplained++
			r.Faults = append(r.Faults, d.Fault)
		}
	}
	r.Faults = slices.Concat(c.faults.first, r.Faults, found.first)
	r.Altered = c.faults.counts[KindAltered]
	r.VersionGaps = c.faults.counts[KindVersionGap]
	r.EpochFaults = c.faults.counts[KindEpoch]
	if l := c.config.Ledger; l != nil {
		r.Faults = append(r.Faults, l.faults.first...)
		r.Altered += l.faults.counts[KindAltered]
		r.LedgerFaults = l.faults.counts[KindLedger]
	}
}
