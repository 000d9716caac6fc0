package ops

import (
	"slices"
	"strings"

	"github.com/postrider/postrider/delivery/ops/maintenance"
)

// State is the present stage of a message's delivery.
type State string

// The states, as the view outbox_messages shows them.
const (
	// Pending can be published.
	Pending State = "pending"
	// Scheduled waits for its time.
	Scheduled State = "scheduled"
	// Failed will be tried again.
	Failed State = "failed"
	// Blocked waits behind an earlier message of its stream.
	Blocked State = "blocked"
	// Dead waits for a person.
	Dead State = "dead"
	// Published is in the stream.
	Published State = "published"
	// Skipped was settled without a message.
	Skipped State = "skipped"
	// Discarded was given up by an operator.
	Discarded State = "discarded"
)

// Two more that only Show knows.
const (
	// AuditOnly events were never meant to be published.
	AuditOnly State = "audit_only"
	// Unknown events are neither in the outbox nor in its history: it ended with the retention, or they were never queued.
	Unknown State = "unknown"
)

// States lists all states that a list can be filtered by.
func States() []State {
	return []State{Pending, Scheduled, Failed, Blocked, Dead, Published, Skipped, Discarded}
}

// ParseState reads a state's name; the error names those that exist.
func ParseState(name string) (State, error) {
	if s := State(name); slices.Contains(States(), s) {
		return s, nil
	}
	names := make([]string, 0, len(States()))
	for _, s := range States() {
		names = append(names, string(s))
	}
	return "", maintenance.Refuse(FieldState, "unknown state %q; there are %s", name, strings.Join(names, ", "))
}

// Queued reports whether messages in that state have a row in the outbox.
func (s State) Queued() bool {
	return slices.Contains([]State{Pending, Scheduled, Failed, Blocked, Dead}, s)
}
