package ops

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Filter chooses messages; a field that is left zero chooses all.
type Filter struct {
	// States may hold any of States().
	States     []State
	Partitions []partition.ID
	// Stream, Topic, Type and Tenant are compared exactly.
	Stream, Topic, Type, Tenant string
	// Sequence and EventID name one message. Sequence is for lists alone; a Selection has Sequences.
	Sequence int64
	EventID  uuid.UUID
	// ErrorContains is a part of the last error, upper and lower case as it stands there. Settled messages have no last error.
	ErrorContains string
	// ErrorFamily is the last error as Causes writes it, compared exactly.
	ErrorFamily string
	// Since and Until bound when the event was recorded: Since belongs to it, Until does not.
	Since, Until time.Time
}

// Empty reports whether the filter chooses everything, whatever its States.
func (f Filter) Empty() bool {
	return len(f.Partitions) == 0 && f.Sequence == 0 && f.Stream == "" && f.Topic == "" && f.Type == "" && f.Tenant == "" &&
		f.EventID == uuid.Nil && !f.asksErrors() && f.Since.IsZero() && f.Until.IsZero()
}

// withDefaults makes an empty list no list, which chooses all, and names each partition once.
func (f Filter) withDefaults() Filter {
	if len(f.Partitions) == 0 {
		f.Partitions = nil
	}
	f.Partitions = slices.Compact(slices.Sorted(slices.Values(f.Partitions)))
	return f
}

func (f Filter) validate() error {
	for _, s := range f.States {
		if _, err := ParseState(string(s)); err != nil {
			return err
		}
	}
	for _, p := range f.Partitions {
		if p < 0 {
			return maintenance.Refuse(FieldPartition, "must not be negative, got %d", p)
		}
	}
	if f.Sequence < 0 {
		return maintenance.Refuse(FieldSequence, "must be at least 1, got %d", f.Sequence)
	}
	for field, text := range map[string]string{
		FieldStream: f.Stream, FieldTopic: f.Topic, FieldType: f.Type, FieldTenant: f.Tenant,
		FieldError: f.ErrorContains, FieldFamily: f.ErrorFamily,
	} {
		if err := maintenance.CheckText(field, text); err != nil {
			return err
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return maintenance.Refuse(FieldUntil, "must lie after %s, got %s",
			f.Since.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	}
	return nil
}

// wants reports whether messages of that state are chosen.
func (f Filter) wants(s State) bool { return len(f.States) == 0 || slices.Contains(f.States, s) }

// mayChoose reports whether the known part of a message does not contradict the filter.
func (f Filter) mayChoose(m Message) bool {
	same := func(wanted, is string) bool { return wanted == "" || is == "" || wanted == is }
	return f.wants(m.State) && !f.asksErrors() && f.EventID == uuid.Nil && (f.Sequence == 0 || f.Sequence == m.Sequence) &&
		same(f.Stream, m.Stream) && same(f.Topic, m.Topic) && (len(f.Partitions) == 0 || slices.Contains(f.Partitions, m.Partition))
}

// want returns the chosen ones of those states.
func (f Filter) want(states ...State) []State {
	return slices.DeleteFunc(states, func(s State) bool { return !f.wants(s) })
}

// queueStates returns the chosen states of rows in the outbox.
func (f Filter) queueStates() []State { return f.want(Pending, Scheduled, Failed, Blocked, Dead) }

// settledStates returns the chosen states of rows that left it.
func (f Filter) settledStates() []State {
	if f.asksErrors() {
		return nil
	}
	return f.want(Published, Skipped, Discarded)
}

// asked adds the filter's conditions on a row of the outbox to a statement's arguments, but for its states and partitions.
func (f Filter) asked(args pg.Args) pg.Args {
	args["error"], args["family"] = pg.OrNull(f.ErrorContains), pg.OrNull(f.ErrorFamily)
	return f.askedOfEvents(args)
}

// askedOfEvents adds the filter's conditions on an event.
func (f Filter) askedOfEvents(args pg.Args) pg.Args {
	args["stream"], args["topic"], args["type"] = pg.OrNull(f.Stream), pg.OrNull(f.Topic), pg.OrNull(f.Type)
	args["tenant"] = pg.OrNull(f.Tenant)
	args["since"], args["until"] = timeOrNull(f.Since), timeOrNull(f.Until)
	return args
}

// asksErrors reports whether only rows that failed are chosen.
func (f Filter) asksErrors() bool { return f.ErrorContains != "" || f.ErrorFamily != "" }

// asksEvents reports whether choosing a row of the outbox takes its event.
func (f Filter) asksEvents() bool {
	return f.Type != "" || f.Tenant != "" || !f.Since.IsZero() || !f.Until.IsZero()
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Page chooses a part of a list.
type Page struct {
	// After is the sequence behind which the page begins, in the list's order; 0: at its beginning.
	After int64
	// Limit bounds the messages; 1 to MaxLimit. Defaults to 100.
	Limit int
	// Descending begins with the highest sequence.
	Descending bool
	// Within bounds the search for messages before the page ends with those that were found: see Listing.LookedUpTo. It may be exceeded
	// by some 20 ms, and every page comes forward. At most 1 minute. Defaults to 30 ms.
	Within time.Duration
}

// MaxLimit bounds the messages of one page.
const MaxLimit = 10_000

const (
	defaultLimit  = 100
	defaultWithin = 30 * time.Millisecond
	mostWithin    = time.Minute
)

func (p Page) withDefaults() Page {
	p.Limit = cmp.Or(p.Limit, defaultLimit)
	p.Within = cmp.Or(p.Within, defaultWithin)
	if p.After == 0 && p.Descending {
		p.After = math.MaxInt64
	}
	return p
}

func (p Page) validate() error {
	if p.Limit < 0 || p.Limit > MaxLimit {
		return maintenance.Refuse(FieldLimit, "must lie between 1 and %d, got %d", MaxLimit, p.Limit)
	}
	if p.Within < 0 || p.Within > mostWithin {
		return maintenance.Refuse(FieldWithin, "must lie between 0 and %s, got %s", mostWithin, p.Within)
	}
	if p.After < 0 {
		return maintenance.Refuse(FieldAfter, "must not be negative, got %d", p.After)
	}
	return nil
}

// compare orders sequences as the page does.
func (p Page) compare(a, b int64) int {
	if p.Descending {
		a, b = b, a
	}
	return cmp.Compare(a, b)
}
