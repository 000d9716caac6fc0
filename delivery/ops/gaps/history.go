package gaps

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// errRemade means that the stream was made anew meanwhile.
var errRemade = errors.New("the stream was made anew meanwhile; look again")

// history finds events that the history calls published and that the stream lacks, wherever they lay. A note explains those that the
// stream dropped from its front by order.
func (d *detection) history(ctx context.Context) error {
	if d.stream == nil {
		return nil
	}
	single, oldest, err := d.stream.Drops(ctx)
	if err != nil {
		return err
	}
	if single != "" {
		d.report.note("the history is not compared with the stream: %s", single)
		return nil
	}
	var suspects []int64
	var dropped int64
	err = d.pages(ctx, "history and stream", func(_ partition.ID, sequence int64, position *int64, _ int) error {
		if position == nil {
			return nil
		}
		if d.report.Delivered++; !d.held.has(uint64(sequence)) {
			suspects = append(suspects, sequence)
		}
		return nil
	}, func() error {
		if len(suspects) == 0 {
			return nil
		}
		if err := d.catchUp(ctx); err != nil {
			return err
		}
		for chunk := range slices.Chunk(suspects, suspectChunk) {
			n, err := d.lacking(ctx, chunk, oldest != "")
			if err != nil {
				return err
			}
			dropped += n
		}
		suspects = suspects[:0]
		return nil
	})
	if dropped > 0 {
		why := cmp.Or(oldest, "events alone were purged")
		d.report.note("%d events were dropped from the front of the stream, which begins with the event at position %d: %s", dropped, d.extent.Front, why)
	}
	return err
}

// catchUp reads the messages added since the stream was read.
func (d *detection) catchUp(ctx context.Context) error {
	now, err := d.stream.Extent(ctx)
	if err != nil {
		return err
	}
	if !now.Created.Equal(d.extent.Created) {
		return errRemade
	}
	before := d.extent.Last
	d.extent = now
	if err := d.scan(ctx, before+1, now.Last); err != nil {
		return err
	}
	// Messages published and purged in between are not missing behind the present front.
	now, err = d.stream.Extent(ctx)
	d.extent.First, d.extent.Front = now.First, now.Front
	return err
}

// lacking reports the events of which the stream holds no message at all, and which are not on their way again. It counts those dropped
// from the front: the stream says that it drops, or still holds messages before theirs, and their places are empty.
func (d *detection) lacking(ctx context.Context, sequences []int64, drops bool) (dropped int64, err error) {
	g := Gap{Kind: NotInStream}
	var waits bool
	var positions []*int64
	var at pgtype.Timestamptz
	err = d.look(ctx, d.sql.Deliveries, pg.Args{"sequences": sequences, "partitions": d.bounds.partitions},
		[]any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key, &waits, &positions, &g.Generation, &at}, func() error {
			g.at, g.Position, g.Partition = at.Time, latest(positions), partition.Of(g.key, d.count)
			sequence := uint64(g.Sequence) // a sequence; under another generation it came on an earlier page
			if waits || g.Position == 0 || d.held.has(sequence) || d.lost.has(sequence) || !d.covers(g.Sequence, g.Stream, g.Partition) {
				return nil
			}
			d.lost.set(sequence)
			if d.middle {
				if inside, err := d.inside(ctx, g); !inside || err != nil {
					return err
				}
			}
			switch {
			case at.Time.Before(d.extent.Created):
				g.Detail = "published to a stream that is no more: this one was made later"
			case g.Position < d.extent.Front && (drops || d.extent.First <= g.Position):
				other, err := d.lies(ctx, g.Position)
				if !other || err != nil {
					dropped++
					return err
				}
				g.Detail = "published, and another message lies at its position: the stream is an older copy"
			case g.Position < d.extent.Front:
				g.Detail = "published, and the stream begins behind it: it was purged"
			case g.Position > d.extent.Last:
				g.Detail = "published, and the stream ends before it: it is an older copy"
			default:
				g.Detail = "published, and the stream does not hold it"
			}
			d.report.add(g)
			return nil
		})
	return dropped, err
}

// inside reports whether a message was lost in the middle of the stream.
func (d *detection) inside(ctx context.Context, g Gap) (bool, error) {
	if g.at.Before(d.extent.Created) || g.Position < d.extent.Front || g.Position > d.extent.Last {
		return false, nil
	}
	other, err := d.lies(ctx, g.Position)
	return !other, err
}

// latest returns the position of the newest delivery that has one; 0: none.
func latest(positions []*int64) uint64 {
	for _, p := range slices.Backward(positions) {
		if p != nil {
			return uint64(*p)
		}
	}
	return 0
}

// lies reports whether a position holds a message. It asks the stream once for each empty run.
func (d *detection) lies(ctx context.Context, position uint64) (_ bool, err error) {
	if position < d.empty || position >= d.next {
		d.empty = position
		d.next, err = d.stream.Following(ctx, position)
	}
	return position == d.next, err
}
