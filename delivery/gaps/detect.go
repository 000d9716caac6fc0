package gaps

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// Sizes of pages.
const (
	eventWindow  = 200_000 // sequences
	historyPage  = 1000    // batches
	pointerPage  = 10_000
	versionPage  = 100_000
	suspectChunk = 500
)

// detection is a Detect under way.
type detection struct {
	*Store
	Options
	bounds
	stream Stream
	report *Report

	first, last uint64 // of the stream
	// settled are the sequences of the history, present the positions of messages.
	settled, present bits
	// missing are events that were found nowhere so far; the stream may hold them.
	missing map[int64]Gap
	order   []int64 // of missing
}

// Detect compares what the options choose. stream may be nil: then nothing is said
// about it, and an event that nobody recorded cannot be told from one that was
// never enqueued.
func (s *Store) Detect(ctx context.Context, o Options, stream Stream) (*Report, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &detection{
		Store: s, Options: o, stream: stream, missing: map[int64]Gap{},
		report: &Report{Counts: map[Kind]int64{}, limit: o.Limit},
	}
	if err := d.run(ctx); err != nil {
		return nil, fmt.Errorf("look for gaps: %w", err)
	}
	return d.report, nil
}

func (d *detection) run(ctx context.Context) (err error) {
	if d.stream != nil {
		if d.first, d.last, err = d.stream.Extent(ctx); err != nil {
			return err
		}
	}
	if d.bounds, err = d.Store.bounds(ctx, d.Options); err != nil {
		return err
	}
	for _, one := range []struct {
		step  func(context.Context) error
		kinds []Kind
	}{
		{d.events, []Kind{NeverEnqueued, Unrecorded}},
		{d.pointers, []Kind{NoEvent}},
		{d.versions, []Kind{NoVersion}},
		{d.messages, []Kind{UnknownEvent, NotInStream, NeverEnqueued, Unrecorded}},
		{d.history, []Kind{NotInStream}},
	} {
		if !d.wants(one.kinds...) {
			continue
		}
		if err := one.step(ctx); err != nil {
			return err
		}
	}
	for _, sequence := range d.order {
		if g, left := d.missing[sequence]; left && d.wants(NeverEnqueued) {
			if d.stream == nil {
				g.Detail = "the stream was not looked at"
			}
			d.report.add(g)
		}
	}
	return nil
}

// events finds those that have neither a pointer nor a history row.
func (d *detection) events(ctx context.Context) error {
	since := d.since
	whole := d.stream != nil && d.first <= 1 // the stream still holds its beginning
	if whole {
		since = nil
	}
	if d.since == nil && !whole && d.highest > 0 {
		d.report.note("the history is empty and the stream does not hold its beginning: events without a pointer cannot be judged")
		return nil
	}
	if since != nil {
		d.report.note("events recorded before %s are not judged: the history does not go further back", since.Format("2006-01-02T15:04:05Z07:00"))
	}
	d.settled.base = uint64(d.low()) //nolint:gosec // not negative
	err := d.pages(ctx, "history", func(_ partition.ID, sequence int64, _ *int64, _ int) error {
		d.settled.set(uint64(sequence)) //nolint:gosec // a sequence
		return nil
	})
	if err != nil {
		return err
	}
	var suspects []int64
	flush := func() error {
		err := d.suspects(ctx, suspects)
		suspects = suspects[:0]
		return err
	}
	for at := d.low(); at < d.highest; {
		next := d.highest
		if d.Stream == "" && next-at > eventWindow {
			next = at + eventWindow
		}
		var found []int64
		var sequence int64
		err := d.look(ctx, "events", []any{at, next, orNull(d.Stream), since, d.bounds.partitions}, []any{&sequence}, func() error {
			if d.report.Events++; !d.settled.has(uint64(sequence)) { //nolint:gosec // a sequence
				found = append(found, sequence)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, sequence := range found {
			if suspects = append(suspects, sequence); len(suspects) == suspectChunk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		at = next
		d.Progress("events", at, d.highest)
	}
	return flush()
}

// suspects looks again, in one snapshot: what was published meanwhile is none.
func (d *detection) suspects(ctx context.Context, sequences []int64) error {
	if len(sequences) == 0 {
		return nil
	}
	g := Gap{Kind: NeverEnqueued}
	return d.look(ctx, "suspects", []any{sequences, d.bounds.partitions},
		[]any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key}, func() error {
			g.Partition = partition.Of(g.key, d.count)
			if d.covers(g.Sequence, g.Stream, g.Partition) {
				d.missing[g.Sequence] = g
				d.order = append(d.order, g.Sequence)
			}
			return nil
		})
}

// pages reads the history.
func (d *detection) pages(ctx context.Context, what string, row func(id partition.ID, sequence int64, position *int64, generation int) error) error {
	for after := int64(0); ; {
		var end *int64
		var n int
		args := []any{after, d.low() + 1, d.highest, historyPage}
		if err := d.look(ctx, "history_end", args, []any{&end, &n}, func() error { return nil }); err != nil || end == nil {
			return err
		}
		var (
			batch, sequence int64
			id              partition.ID
			position        *int64
			generation      int
		)
		if err := d.look(ctx, "history", args, []any{&batch, &id, &sequence, &position, &generation}, func() error {
			return row(id, sequence, position, generation)
		}); err != nil {
			return err
		}
		after = *end
		d.Progress(what, after, after)
		if n < historyPage {
			return nil
		}
	}
}

// pointers finds those without an event.
func (d *detection) pointers(ctx context.Context) error {
	key, after := -1, int64(0)
	for {
		n := 0
		g := Gap{Kind: NoEvent, Detail: "the worker retries it until it is dead"}
		var there bool
		err := d.look(ctx, "pointers", []any{key, after, pointerPage}, []any{&g.Partition, &g.Sequence, &g.Stream, &there}, func() error {
			n++
			key, after = int(g.Partition), g.Sequence
			if !there && d.covers(g.Sequence, g.Stream, g.Partition) {
				d.report.add(g)
			}
			return nil
		})
		if err != nil || n < pointerPage {
			return err
		}
		d.Progress("pointers of partition", int64(key), int64(d.count))
	}
}

// versions finds those that a stream of events lacks.
func (d *detection) versions(ctx context.Context) error {
	stream, version := "", int64(0)
	for read := int64(0); ; {
		var (
			before, sequence, n int64
			name, key           string
			at                  int64
		)
		err := d.look(ctx, "versions", []any{stream, version, versionPage, orNull(d.Stream)},
			[]any{&name, &at, &before, &sequence, &key, &n}, func() error {
				id := partition.Of(key, d.count)
				if at > before+1 && d.covers(sequence, name, id) {
					d.report.add(Gap{
						Kind: NoVersion, Stream: name, Partition: id, Version: before + 1, Through: at - 1, Sequence: sequence,
						Detail: "missing before this sequence",
					})
				}
				stream, version = name, at
				return nil
			})
		if err != nil || n < versionPage {
			return err
		}
		read += n
		d.Progress("versions", read, d.highest)
	}
}

// messages reads the stream: what it holds, and whether the database knows it.
func (d *detection) messages(ctx context.Context) error {
	if d.stream == nil || d.last == 0 {
		return nil
	}
	d.present.base = d.first
	return d.stream.Scan(ctx, d.first, d.last, func(page []Entry) error {
		sequences, ids := make([]int64, len(page)), make([]uuid.UUID, len(page))
		for i, e := range page {
			d.present.set(e.Position)
			sequences[i], ids[i] = e.Sequence, e.EventID
			if g, asked := d.missing[e.Sequence]; asked && g.EventID == e.EventID {
				delete(d.missing, e.Sequence)
				if d.wants(Unrecorded) {
					g.Kind, g.Position, g.Detail = Unrecorded, e.Position, "the stream holds it; its history row is gone"
					d.report.add(g)
				}
			}
		}
		d.report.Messages += int64(len(page))
		d.Progress("messages", int64(page[len(page)-1].Position), int64(d.last)) //nolint:gosec // positions
		if !d.wants(UnknownEvent) {
			return nil
		}
		return d.unknown(ctx, page, sequences, ids)
	})
}

// unknown reports the messages whose events the database does not know.
func (d *detection) unknown(ctx context.Context, page []Entry, sequences []int64, ids []uuid.UUID) error {
	var place int
	var id *uuid.UUID
	return d.look(ctx, "unknown", []any{sequences, ids}, []any{&place, &id}, func() error {
		e := page[place-1]
		if !d.covers(e.Sequence, e.Stream, e.Partition) {
			return nil
		}
		detail := e.Foreign
		switch {
		case detail != "":
		case id != nil:
			detail = fmt.Sprintf("the database has event %s under that sequence", id)
		default:
			detail = "the database has no such sequence"
		}
		d.report.add(Gap{
			Kind: UnknownEvent, Sequence: e.Sequence, Partition: e.Partition, Stream: e.Stream, EventID: e.EventID, Version: e.Version,
			Position: e.Position, Generation: e.Generation, Detail: detail,
		})
		return nil
	})
}
