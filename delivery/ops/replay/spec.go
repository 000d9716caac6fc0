package replay

import (
	"cmp"
	"regexp"
	"time"

	"github.com/postrider/postrider/delivery/ops/maintenance"
)

// JobKind names the replayed part of the selection.
type JobKind string

// The kinds of replays.
const (
	// Range is every selected event.
	Range JobKind = "range"
	// RebuildCurrent is the last selected event of every stream.
	RebuildCurrent JobKind = "rebuild-current"
	// Retry is every selected event that failed, still unpublished.
	Retry JobKind = "retry"
)

// Destination says where messages go.
type Destination string

// The destinations.
const (
	// Live replays go through the outbox to the usual subjects.
	Live Destination = "live"
	// Shadow replays go past the outbox, to subjects under a prefix.
	Shadow Destination = "shadow"
)

// State is a replay's present stage.
type State string

// The states of a replay.
const (
	Planned   State = "planned" // made to be begun later
	Running   State = "running" // or killed: see Job.Abandoned
	Paused    State = "paused"  // ended in good order before it was done
	Done      State = "done"
	Cancelled State = "cancelled"
)

// Selection chooses events. All its conditions must hold; without any All must be set, which goes with To alone.
type Selection struct {
	// From and To are sequences, both included; 0: no bound.
	From int64 `json:"from_sequence,omitempty"`
	To   int64 `json:"to_sequence,omitempty"`
	// Since and Until bound when events were recorded: Since belongs to it, Until does not.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Stream, Type, Topic and Tenant are compared exactly.
	Stream string `json:"stream,omitempty"`
	Type   string `json:"type,omitempty"`
	Topic  string `json:"topic,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	// All takes everything.
	All bool `json:"all,omitempty"`
}

// Empty reports whether no condition was given.
func (s Selection) Empty() bool {
	s.All = false
	return s == Selection{}
}

// Spec describes a replay to make.
type Spec struct {
	Kind        JobKind
	Destination Destination
	Selection   Selection
	// Prefix is put before the subjects of a shadow replay; {id} stands for the replay's number. Defaults to "replay.{id}".
	Prefix string
	// Stream is the JetStream stream that a shadow replay goes to.
	Stream string
	// Begin says that the replay's maker runs it, too: it is Running from the beginning. One that nobody came to run was interrupted, as
	// any other.
	Begin bool
	// Rate leaves the replay to a process that serves replays (Store.Serve), with at most so many events a second, 0.1 to 1e9; it is live
	// then. 0: its maker runs it.
	Rate float64
	// Actor names the operator, Reason the cause, for the audit. The reason may be empty.
	Actor, Reason string
}

// DefaultPrefix is put before the subjects of a shadow replay.
const DefaultPrefix = "replay.{id}"

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.([A-Za-z0-9_-]+|\{id\}))*$`)

var streamPattern = regexp.MustCompile(`^[^\s.*>/\\\x00-\x1f\x7f]{1,255}$`)

// WithDefaults fills what was left empty.
func (s Spec) WithDefaults() Spec {
	s.Kind = cmp.Or(s.Kind, Range)
	s.Destination = cmp.Or(s.Destination, Live)
	if s.Destination == Shadow && s.Prefix == "" {
		s.Prefix = DefaultPrefix
	}
	return s
}

// prefixLimit bounds a prefix, in bytes.
const prefixLimit = 200

// Validate refuses impossible requests, by the field's name.
func (s Spec) Validate() error {
	switch {
	case s.Kind != Range && s.Kind != RebuildCurrent && s.Kind != Retry:
		return maintenance.Refuse("kind", "must be range, rebuild-current or retry, got %q", s.Kind)
	case s.Destination != Live && s.Destination != Shadow:
		return maintenance.Refuse("destination", "must be live or shadow, got %q", s.Destination)
	case s.Kind == Retry && s.Destination == Shadow:
		return maintenance.Refuse("shadow-prefix", "what failed is tried again where it belongs: retry goes to the live subjects alone")
	case s.Destination == Shadow && !prefixPattern.MatchString(s.Prefix):
		return maintenance.Refuse("shadow-prefix", "must be tokens of letters, digits, '-' and '_' or {id}, the first one fixed, separated by dots; got %q", s.Prefix)
	case s.Destination == Live && s.Prefix != "":
		return maintenance.Refuse("shadow-prefix", "a live replay has none")
	case s.Rate != 0 && (s.Destination == Shadow || s.Begin):
		return maintenance.Refuse("rate", "goes with a live replay that others run")
	case s.Rate != 0 && !possible(s.Rate):
		return refuseRate(s.Rate)
	case s.Destination == Shadow && s.Stream == "":
		return maintenance.Refuse("shadow-stream", "is required")
	case s.Destination == Shadow && len(s.Prefix) > prefixLimit:
		return maintenance.Refuse("shadow-prefix", "must have at most %d bytes, got %d", prefixLimit, len(s.Prefix))
	case s.Destination == Shadow && !streamPattern.MatchString(s.Stream):
		return maintenance.Refuse("shadow-stream", "must be a stream's name: no spaces, dots, wildcards or slashes; got %q", s.Stream)
	}
	if err := maintenance.CheckWords(s.Actor, s.Reason, false); err != nil {
		return err
	}
	return s.Selection.validate()
}

func (s Selection) validate() error {
	switch {
	case s.Empty() && !s.All:
		return maintenance.Refuse("selection", "nothing is selected: give a condition, or all")
	case s.All && s != Selection{All: true, To: s.To}:
		return maintenance.Refuse("selection", "all and conditions exclude each other")
	case s.From < 0:
		return maintenance.Refuse("from-sequence", "must be at least 1, got %d", s.From)
	case s.To < 0:
		return maintenance.Refuse("to-sequence", "must be at least 1, got %d", s.To)
	case s.To > 0 && s.To < s.From:
		return maintenance.Refuse("to-sequence", "must be at least %d, got %d", s.From, s.To)
	case s.Since != nil && s.Until != nil && !s.Since.Before(*s.Until):
		return maintenance.Refuse("until", "must lie after %s, got %s", s.Since.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	}
	for field, text := range map[string]string{"stream": s.Stream, "type": s.Type, "topic": s.Topic, "tenant": s.Tenant} {
		if err := maintenance.CheckText(field, text); err != nil {
			return err
		}
	}
	return nil
}
