package gaps

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// Kind is what is wrong.
type Kind string

// The kinds of gaps.
const (
	NeverEnqueued Kind = "never-enqueued"
	Unrecorded    Kind = "unrecorded"
	NoEvent       Kind = "pointer-without-event"
	NotInStream   Kind = "not-in-stream"
	UnknownEvent  Kind = "unknown-event"
	NoVersion     Kind = "missing-version"
)

// Kinds lists the kinds of gaps.
func Kinds() []Kind {
	return []Kind{NeverEnqueued, Unrecorded, NoEvent, NotInStream, UnknownEvent, NoVersion}
}

// ParseKind reads the name of a kind.
func ParseKind(name string) (Kind, error) {
	if slices.Contains(Kinds(), Kind(name)) {
		return Kind(name), nil
	}
	return "", &InputError{Field: "kind", Problem: fmt.Sprintf("must be one of %v, got %q", Kinds(), name)}
}

// Gap is one thing that is wrong. What does not apply is zero.
type Gap struct {
	Kind      Kind
	Sequence  int64
	Partition partition.ID
	Stream    string
	EventID   uuid.UUID
	// Version is the event's; of missing versions the first one, and Through the
	// last.
	Version, Through int64
	// Position is where the message lies, or lay, in the JetStream stream.
	Position uint64
	// Generation is the highest one that the history knows of the event.
	Generation int
	// Detail says more.
	Detail string

	key string // routing key
}

// InputError is a complaint about one input; nothing was changed.
type InputError struct {
	// Field names the input as a flag does, without its dashes.
	Field string
	// Problem says what is wrong, to be put after the field's name.
	Problem string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Options say where to look.
type Options struct {
	// From and To are sequences, both included; 0: no bound.
	From, To int64
	// Stream is one stream of events; empty: all.
	Stream string
	// Partitions are those whose events count; none: all.
	Partitions []partition.ID
	// Kinds are those that are looked for; none: all.
	Kinds []Kind
	// Limit is the most gaps that are listed of one kind; all are counted.
	// Defaults to 1000.
	Limit int
	// Progress is told what is read and how far that is. nil: nobody.
	Progress func(what string, at, end int64)
}

func (o Options) withDefaults() Options {
	if o.Limit == 0 {
		o.Limit = 1000
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if len(o.Partitions) == 0 {
		o.Partitions = nil
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.From < 0:
		return &InputError{"from-sequence", fmt.Sprintf("must be at least 1, got %d", o.From)}
	case o.To < 0 || o.To > 0 && o.To < o.From:
		return &InputError{"to-sequence", fmt.Sprintf("must be at least 1 and at least --from-sequence, got %d", o.To)}
	case o.Limit < 1:
		return &InputError{"limit", fmt.Sprintf("must be at least 1, got %d", o.Limit)}
	}
	return nil
}

func (o Options) wants(kinds ...Kind) bool {
	return len(o.Kinds) == 0 || slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(o.Kinds, k) })
}

// covers tells whether an event of that sequence, stream and partition counts.
func (o Options) covers(sequence int64, stream string, id partition.ID) bool {
	return sequence >= o.From && (o.To == 0 || sequence <= o.To) && (o.Stream == "" || o.Stream == stream) &&
		(o.Partitions == nil || slices.Contains(o.Partitions, id))
}

// Report is what Detect found.
type Report struct {
	// Counts are the gaps by kind, Gaps the first ones of each.
	Counts map[Kind]int64
	Gaps   []Gap
	// Events, Messages and Delivered are how many were looked at: events, messages
	// of the stream, and messages that the history names.
	Events, Messages, Delivered int64
	// Notes say what could not be compared, and why.
	Notes []string

	limit  int
	recent time.Time // history rows that were not read are younger
}

// Total is how many gaps there are.
func (r *Report) Total() (n int64) {
	for _, count := range r.Counts {
		n += count
	}
	return n
}

func (r *Report) add(g Gap) {
	if r.Counts[g.Kind]++; r.Counts[g.Kind] <= int64(r.limit) {
		r.Gaps = append(r.Gaps, g)
	}
}

// left is how many gaps of these kinds are not listed.
func (r *Report) left(kinds []Kind) (n int64) {
	for _, k := range kinds {
		n += max(0, r.Counts[k]-int64(r.limit))
	}
	return n
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Entry is a message of the stream.
type Entry struct {
	Position   uint64
	Subject    string
	Sequence   int64
	Partition  partition.ID
	Stream     string
	EventID    uuid.UUID
	Version    int64
	Generation int
	// Foreign says why the message is not an outbox's; empty: it is.
	Foreign string
}

// Extent is where a stream begins and ends.
type Extent struct {
	// First and Last are positions of any messages. Front is the first one of an event:
	// what lay before was dropped from the front. Last+1: the stream holds no event.
	First, Front, Last uint64
	// Created is when the stream was made: what was published before then went to
	// another one.
	Created time.Time
}

// Stream reads the JetStream stream.
type Stream interface {
	// Extent returns where it begins and ends now.
	Extent(ctx context.Context) (Extent, error)
	// Scan gives fn the messages of events between two positions, in pages and in
	// their order.
	Scan(ctx context.Context, first, last uint64, fn func([]Entry) error) error
	// Drops says why the stream may lack single messages between others that it
	// holds, and why it may drop its oldest ones; empty: it does not.
	Drops(ctx context.Context) (single, oldest string, err error)
}
