package gaps

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

// history finds messages that it says were published and that the stream does not
// hold, between others that it holds.
func (d *detection) history(ctx context.Context) error {
	if d.stream == nil || d.last == 0 {
		return nil
	}
	why, err := d.stream.Drops(ctx)
	if err != nil {
		return err
	}
	if why != "" {
		d.report.note("the history is not compared with the stream: %s", why)
		return nil
	}
	var suspects []int64
	d.lost.base = uint64(d.low()) //nolint:gosec // not negative
	return d.pages(ctx, "history and stream", func(_ partition.ID, sequence int64, position *int64, _ int) error {
		if position == nil {
			return nil
		}
		d.report.Delivered++
		at := uint64(*position) //nolint:gosec // a position
		if at < d.first || at > d.last || d.present.has(at) {
			return nil
		}
		suspects = append(suspects, sequence)
		return nil
	}, func() error {
		if len(suspects) == 0 {
			return nil
		}
		first, _, err := d.stream.Extent(ctx) // it may have moved on since
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(suspects, suspectChunk) {
			if err := d.lacking(ctx, chunk, first); err != nil {
				return err
			}
		}
		suspects = suspects[:0]
		return nil
	})
}

// lacking reports those events of which the stream holds no message at all, and
// which are not on their way again.
func (d *detection) lacking(ctx context.Context, sequences []int64, first uint64) error {
	g := Gap{Kind: NotInStream, Detail: "published, and the stream does not hold it"}
	var waits bool
	var positions []*int64
	return d.look(ctx, "deliveries", []any{sequences, d.bounds.partitions},
		[]any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key, &waits, &positions, &g.Generation}, func() error {
			g.Position, g.Partition = 0, partition.Of(g.key, d.count)
			for _, p := range positions {
				if p != nil && (d.present.has(uint64(*p)) || uint64(*p) > d.last) { //nolint:gosec // positions
					return nil
				}
				if p != nil {
					g.Position = max(g.Position, uint64(*p)) //nolint:gosec // a position
				}
			}
			again := d.lost.has(uint64(g.Sequence)) //nolint:gosec // a sequence; under another generation, on an earlier page
			if waits || again || g.Position < first || !d.covers(g.Sequence, g.Stream, g.Partition) {
				return nil
			}
			d.lost.set(uint64(g.Sequence)) //nolint:gosec // a sequence
			d.report.add(g)
			return nil
		})
}

// collect reads one column.
func collect[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}
