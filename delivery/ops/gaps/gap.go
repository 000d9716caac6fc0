package gaps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/partition"
)

// GapKind names the defect.
type GapKind string

// The kinds of gaps.
const (
	NeverEnqueued GapKind = "never-enqueued"
	Unrecorded    GapKind = "unrecorded"
	NoEvent       GapKind = "pointer-without-event"
	NotInStream   GapKind = "not-in-stream"
	UnknownEvent  GapKind = "unknown-event"
	NoVersion     GapKind = "missing-version"
)

// Kinds lists the kinds of gaps.
func Kinds() []GapKind {
	return []GapKind{NeverEnqueued, Unrecorded, NoEvent, NotInStream, UnknownEvent, NoVersion}
}

// ParseKind reads the name of a kind.
func ParseKind(name string) (GapKind, error) {
	if slices.Contains(Kinds(), GapKind(name)) {
		return GapKind(name), nil
	}
	return "", maintenance.Refuse("kind", "must be one of %v, got %q", Kinds(), name)
}

// Gap is one defect. Fields that do not apply are zero.
type Gap struct {
	Kind      GapKind
	Sequence  int64
	Partition partition.ID
	Stream    string
	EventID   uuid.UUID
	// Version is the event's; of missing versions the first one, and Through the last.
	Version, Through int64
	// Position is the message's position, or its last one, in the JetStream stream.
	Position uint64
	// Generation is the highest one of the event in the history.
	Generation int
	// Detail says more.
	Detail string

	key string    // routing key
	at  time.Time // of its last publication in the history
}

// Options choose the compared events.
type Options struct {
	// From and To are sequences, both included; 0: no bound.
	From, To int64
	// Stream is one stream of events; empty: all.
	Stream string
	// Partitions restrict the events; none: all.
	Partitions []partition.ID
	// Kinds restrict the search; none: all.
	Kinds []GapKind
	// Limit bounds the listed gaps of one kind; all are counted. Defaults to 1000.
	Limit int
	// Progress gets the data being read, the position and the end. nil: nobody.
	Progress func(what string, at, end int64)

	// middle leaves the rest to the workers' takeovers: of missing messages it counts those published to this very stream, behind its
	// first event and before its end, whose place is empty.
	middle bool
	// compared gets each message whose event the database knows, in their order. nil: nobody.
	compared func(StoredMessage)
}

func (o Options) withDefaults() Options {
	o.Limit = cmp.Or(o.Limit, 1000)
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.compared == nil {
		o.compared = func(StoredMessage) {}
	}
	if len(o.Partitions) == 0 {
		o.Partitions = nil
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.From < 0:
		return maintenance.Refuse("from-sequence", "must be at least 1, got %d", o.From)
	case o.To < 0 || o.To > 0 && o.To < o.From:
		return maintenance.Refuse("to-sequence", "must be at least 1 and at least --from-sequence, got %d", o.To)
	case o.Limit < 1:
		return maintenance.Refuse("limit", "must be at least 1, got %d", o.Limit)
	}
	return nil
}

func (o Options) wants(kinds ...GapKind) bool {
	return len(o.Kinds) == 0 || slices.ContainsFunc(kinds, func(k GapKind) bool { return slices.Contains(o.Kinds, k) })
}

// covers reports whether an event of that sequence, stream and partition counts.
func (o Options) covers(sequence int64, stream string, id partition.ID) bool {
	return sequence >= o.From && (o.To == 0 || sequence <= o.To) && (o.Stream == "" || o.Stream == stream) &&
		(o.Partitions == nil || slices.Contains(o.Partitions, id))
}

// Report is Detect's result.
type Report struct {
	// Counts are the gaps by kind, Gaps the first ones of each.
	Counts map[GapKind]int64
	Gaps   []Gap
	// Events, Messages and Delivered count the inspected events, messages of the stream, and messages that the history names.
	Events, Messages, Delivered int64
	// Notes name the omitted comparisons, and the reasons.
	Notes []string

	limit  int
	recent time.Time // history rows that were not read are younger
}

// Total counts all gaps.
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

// left counts the gaps of these kinds that are not listed.
func (r *Report) left(kinds []GapKind) (n int64) {
	for _, k := range kinds {
		n += max(0, r.Counts[k]-int64(r.limit))
	}
	return n
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// StoredMessage is a message of the stream.
type StoredMessage struct {
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

// StreamExtent holds a stream's ends.
type StreamExtent struct {
	// First and Last are positions of any messages. Front is the first one of an event: messages before it were dropped from the front.
	// Last+1: the stream holds no event.
	First, Front, Last uint64
	// Whole: it holds every message that it was ever given.
	Whole bool
	// Created is the time of the stream's creation: messages published before went to another one.
	Created time.Time
}

// Stream reads the JetStream stream.
type Stream interface {
	// Extent returns its present ends.
	Extent(ctx context.Context) (StreamExtent, error)
	// Scan gives fn the messages of events between two positions, in pages and in their order.
	Scan(ctx context.Context, first, last uint64, fn func([]StoredMessage) error) error
	// Following returns the position of the first message under any subject at or behind one; math.MaxUint64: there is none.
	Following(ctx context.Context, position uint64) (uint64, error)
	// Drops says why the stream may lack single messages between others that it
	// holds, and why it may drop its oldest ones; empty: it does not.
	Drops(ctx context.Context) (single, oldest string, err error)
}
