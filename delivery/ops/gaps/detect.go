package gaps

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Sizes of pages.
const (
	eventWindow  = 200_000 // sequences
	historyPage  = 1000    // batches
	pointerPage  = 10_000
	versionPage  = 100_000
	suspectChunk = 5000
)

// detection is a Detect under way.
type detection struct {
	*Store
	Options
	bounds
	stream Stream
	report *Report

	extent StreamExtent // of the stream; it was read up to Last
	// settled are the sequences of the history, held those of events that the stream holds, by their ids.
	settled, held bitset
	// missing are events found nowhere so far; the stream may hold them. lost are those that were reported as not in the stream.
	missing, lost bitset
	// From empty on, the stream holds no message of any kind before next.
	empty, next uint64
}

// Detect compares the events that the options choose. stream may be nil: then the report leaves it out, and an unrecorded event cannot be
// told from one that was never enqueued.
func (s *Store) Detect(ctx context.Context, o Options, stream Stream) (*Report, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	d := &detection{
		Store: s, Options: o, stream: stream,
		report:  &Report{Counts: map[GapKind]int64{}, limit: o.Limit},
		settled: bitset{}, held: bitset{}, missing: bitset{}, lost: bitset{},
	}
	if err := d.run(ctx); err != nil {
		return nil, fmt.Errorf("look for gaps: %w", err)
	}
	return d.report, nil
}

func (d *detection) run(ctx context.Context) (err error) {
	if d.stream != nil {
		if d.extent, err = d.stream.Extent(ctx); err != nil {
			return err
		}
	}
	if d.bounds, err = d.Store.bounds(ctx, d.Options); err != nil {
		return err
	}
	d.report.recent = d.recent
	for _, one := range []struct {
		step  func(context.Context) error
		kinds []GapKind
	}{
		{d.events, []GapKind{NeverEnqueued, Unrecorded}},
		{d.pointers, []GapKind{NoEvent}},
		{d.versions, []GapKind{NoVersion}},
		{d.messages, []GapKind{UnknownEvent, NotInStream, NeverEnqueued, Unrecorded}},
		{d.history, []GapKind{NotInStream}},
	} {
		if !d.wants(one.kinds...) {
			continue
		}
		if err := one.step(ctx); err != nil {
			return err
		}
	}
	if err := d.never(ctx); err != nil {
		return err
	}
	after, err := d.Store.bounds(ctx, d.Options)
	if err == nil && after.count != d.count {
		err = errResized // pointers were looked for in outdated places
	}
	return err
}

// never reports the events found nowhere: it looks at the listed ones once more.
func (d *detection) never(ctx context.Context) error {
	if !d.wants(NeverEnqueued) {
		return nil
	}
	var chunk []int64
	flush := func() error {
		err := d.suspects(ctx, chunk, func(g Gap) {
			if d.stream == nil {
				g.Detail = "the stream was not looked at"
			}
			d.report.add(g)
		})
		chunk = chunk[:0]
		return err
	}
	for at := range d.missing.all {
		if d.report.Counts[NeverEnqueued] >= int64(d.Limit) {
			d.report.Counts[NeverEnqueued]++
			continue
		}
		if chunk = append(chunk, int64(at)); len(chunk) == suspectChunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// events finds those that have neither a pointer nor a history row.
func (d *detection) events(ctx context.Context) error {
	since := d.since
	whole := d.stream != nil && d.extent.Whole
	switch {
	case d.complete:
		since = nil
	case whole && (since == nil || d.extent.Created.Before(*since)):
		since = &d.extent.Created
	}
	if d.since == nil && !whole && d.highest > 0 {
		d.report.note("the history is empty and the stream does not hold its beginning: events without a pointer cannot be judged")
		return nil
	}
	if since != nil {
		d.report.note("events recorded before %s are not judged: neither the history nor this stream goes further back", since.Format("2006-01-02T15:04:05Z07:00"))
	}
	err := d.pages(ctx, "history", func(_ partition.ID, sequence int64, _ *int64, _ int) error {
		d.settled.set(uint64(sequence))
		return nil
	}, nil)
	if err != nil {
		return err
	}
	var suspects []int64
	flush := func() error {
		err := d.suspects(ctx, suspects, func(g Gap) { d.missing.set(uint64(g.Sequence)) })
		suspects = suspects[:0]
		return err
	}
	for at := d.low(); at < d.highest; {
		if err := d.look(ctx, d.sql.Following, pg.Args{"after": at, "upto": d.highest}, []any{&at}, func() error { return nil }); err != nil {
			return err
		}
		next := d.highest
		if d.Stream == "" && next-at > eventWindow {
			next = at + eventWindow
		}
		var found []int64
		var sequence int64
		err := d.look(ctx, d.sql.Events, pg.Args{
			"after": at, "upto": next, "stream": pg.OrNull(d.Stream), "since": since, "partitions": d.bounds.partitions,
		}, []any{&sequence}, func() error {
			if d.report.Events++; !d.settled.has(uint64(sequence)) {
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

// suspects looks again, in one snapshot, and gives the remaining gaps to tell: others were published meanwhile.
func (d *detection) suspects(ctx context.Context, sequences []int64, tell func(Gap)) error {
	if len(sequences) == 0 {
		return nil
	}
	g := Gap{Kind: NeverEnqueued}
	return d.look(ctx, d.sql.Suspects, pg.Args{"sequences": sequences, "partitions": d.bounds.partitions, "recent": d.recent},
		[]any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key}, func() error {
			g.Partition = partition.Of(g.key, d.count)
			if d.covers(g.Sequence, g.Stream, g.Partition) {
				tell(g)
			}
			return nil
		})
}

// pages reads the history. after, which may be nil, is called behind each page.
func (d *detection) pages(
	ctx context.Context, what string, row func(id partition.ID, sequence int64, position *int64, generation int) error, behind func() error,
) error {
	for after := int64(0); ; {
		var end *int64
		var n int
		args := pg.Args{"after": after, "low": d.low() + 1, "high": d.highest, "limit": historyPage}
		if err := d.look(ctx, d.sql.HistoryEnd, args, []any{&end, &n}, func() error { return nil }); err != nil || end == nil {
			return err
		}
		var (
			batch, sequence int64
			id              partition.ID
			position        *int64
			generation      int
		)
		if err := d.look(ctx, d.sql.History, args, []any{&batch, &id, &sequence, &position, &generation}, func() error {
			return row(id, sequence, position, generation)
		}); err != nil {
			return err
		}
		if behind != nil {
			if err := behind(); err != nil {
				return err
			}
		}
		after = *end
		d.Progress(what, after, max(after, d.newest))
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
		args := pg.Args{"partition": key, "after": after, "limit": pointerPage}
		err := d.look(ctx, d.sql.Pointers, args, []any{&g.Partition, &g.Sequence, &g.Stream, &there}, func() error {
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
		err := d.look(ctx, d.sql.Versions, pg.Args{"stream": stream, "version": version, "limit": versionPage, "only": pg.OrNull(d.Stream)},
			[]any{&name, &at, &before, &sequence, &key, &n}, func() error {
				id := partition.Of(key, d.count)
				dropped := before == 0 && d.from > 0 // with a part of the events
				if at > before+1 && !dropped && d.covers(sequence, name, id) {
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

// messages compares the stream's messages with the database.
func (d *detection) messages(ctx context.Context) error {
	if d.stream == nil {
		return nil
	}
	return d.scan(ctx, d.extent.First, d.extent.Last)
}

// scan reads the stream between two positions.
func (d *detection) scan(ctx context.Context, first, last uint64) error {
	if last < first || last == 0 {
		return nil
	}
	return d.stream.Scan(ctx, first, last, func(page []StoredMessage) error {
		d.report.Messages += int64(len(page))
		d.Progress("messages", int64(page[len(page)-1].Position), int64(last))
		if !d.wants(UnknownEvent, NotInStream) { // those alone whose identity matters
			page = slices.DeleteFunc(slices.Clone(page), func(e StoredMessage) bool { return !d.missing.has(uint64(e.Sequence)) })
		}
		return d.identified(ctx, page)
	})
}

// identified compares messages with the events that they name. It reports unknown events, and takes found ones off the missing ones.
func (d *detection) identified(ctx context.Context, page []StoredMessage) error {
	if len(page) == 0 {
		return nil
	}
	sequences, ids := make([]int64, len(page)), make([]uuid.UUID, len(page))
	for i, e := range page {
		sequences[i], ids[i] = e.Sequence, e.EventID
	}
	strange, err := d.unknown(ctx, page, sequences, ids)
	if err != nil {
		return err
	}
	for i, e := range page {
		if strange[i] {
			continue
		}
		d.compared(e)
		if d.held.set(uint64(e.Sequence)); !d.missing.has(uint64(e.Sequence)) {
			continue
		}
		if d.missing.clear(uint64(e.Sequence)); d.wants(Unrecorded) {
			d.report.add(Gap{
				Kind: Unrecorded, Sequence: e.Sequence, Partition: e.Partition, Stream: e.Stream, EventID: e.EventID, Version: e.Version,
				Position: e.Position, Generation: e.Generation, Detail: "the stream holds it; its history row is gone",
			})
		}
	}
	return nil
}

// unknown reports the messages whose events the database does not know, and returns their places in the page.
func (d *detection) unknown(ctx context.Context, page []StoredMessage, sequences []int64, ids []uuid.UUID) (strange map[int]bool, err error) {
	var place int
	var id *uuid.UUID
	strange = map[int]bool{}
	return strange, d.look(ctx, d.sql.Unknown, pg.Args{"sequences": sequences, "ids": ids}, []any{&place, &id}, func() error {
		e := page[place-1]
		if strange[place-1] = true; !d.wants(UnknownEvent) || !d.covers(e.Sequence, e.Stream, e.Partition) {
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
