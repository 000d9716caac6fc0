package chaos

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/ledger"
)

// Phase is an engine's occupation.
type Phase string

// The phases, in their order; the middle three by turns.
const (
	Gathering  Phase = "the workers gather"
	Steady     Phase = "steady"
	Struggling Phase = "struck"
	Mending    Phase = "mending"
	Draining   Phase = "waiting for the last events"
	Over       Phase = "over"
)

// Incident is a mishap that happened.
type Incident struct {
	// At is its time since the start.
	At         time.Duration
	Kind, Text string
	// Then names the end that Took measures: "its partitions moved". Took is 0 while it lasts.
	Then string
	Took time.Duration
	// Moved is the time from the strike until Struck.Over, which is about leases: Took is until delivery has caught up, too.
	Moved time.Duration
}

// Tally sums up the incidents of one kind. Longest is of those that are over.
type Tally struct {
	Kind    string
	Times   int
	Longest time.Duration
}

// State is the state of a run.
type State struct {
	Phase     Phase
	Elapsed   time.Duration
	Incidents []Incident
	// Members are the workers with their leases.
	Members []Member
	// Committed, Received, Reordered and Duplicates are as in ledger.Report. UnderWay counts committed events that were not received: at the
	// end, lost ones.
	Committed, Received, UnderWay, Reordered, Duplicates int
	// Lost counts the events of UnderWay that were committed more than a minute ago, longer than any takeover takes; at the end all.
	Lost  int
	Quiet Quiet
}

// An event under way that is older than overdueAfter counts as lost.
const overdueAfter = time.Minute

// State sums up, in about 20 ms for a million events.
func (e *Engine) State() State {
	report := e.checker.Report()
	lost := e.checker.Overdue(time.Now().Add(-overdueAfter))
	quiet := e.meter.quiet()
	members := e.config.Crew.Members()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == Over {
		lost = report.Lost
	}
	for i := range members {
		members[i].Partitions = e.look.Owned[members[i].ID]
	}
	return State{
		Phase: e.phase, Elapsed: time.Since(e.started), Incidents: slices.Clone(e.incidents), Members: members,
		Committed: report.Committed, Received: report.Received, UnderWay: report.Lost, Reordered: report.Reordered, Duplicates: report.Duplicates,
		Lost: lost, Quiet: quiet,
	}
}

// Tallies returns the incidents by kind, in the order in which the kinds came first.
func (s State) Tallies() (tallies []Tally) {
	for _, i := range s.Incidents {
		at := slices.IndexFunc(tallies, func(t Tally) bool { return t.Kind == i.Kind })
		if at < 0 {
			at, tallies = len(tallies), append(tallies, Tally{Kind: i.Kind})
		}
		tallies[at].Times++
		tallies[at].Longest = max(tallies[at].Longest, i.Took)
	}
	return tallies
}

// Verdict is the result of a run.
type Verdict struct {
	State

	Report ledger.Report
	// Failure is the condition that did not come, or another error that ended the run early.
	Failure error
}

// OK reports whether everything committed was received once, in order, and the cluster recovered from every mishap.
func (v Verdict) OK() bool {
	return v.Failure == nil && v.Report.OK() && v.Report.Received == v.Report.Committed
}

func (e *Engine) enter(phase Phase) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase = phase
}

func (e *Engine) note(i Incident) (index int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.incidents = append(e.incidents, i)
	return len(e.incidents) - 1
}

func (e *Engine) change(index int, with func(*Incident)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	with(&e.incidents[index])
}
