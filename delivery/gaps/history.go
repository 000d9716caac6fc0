package gaps

import (
	"context"

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
	lacks := map[int64]uint64{}
	err = d.pages(ctx, "history and stream", func(_ partition.ID, sequence int64, position *int64, _ int) error {
		if position == nil {
			return nil
		}
		d.report.Delivered++
		at := uint64(*position) //nolint:gosec // a position
		if at < d.first || at > d.last || d.present.has(at) {
			return nil
		}
		if _, known := lacks[sequence]; !known {
			suspects = append(suspects, sequence)
		}
		lacks[sequence] = max(lacks[sequence], at)
		return nil
	})
	if err != nil || len(suspects) == 0 {
		return err
	}
	first, _, err := d.stream.Extent(ctx) // it may have moved on since
	if err != nil {
		return err
	}
	for len(suspects) > 0 {
		chunk := suspects[:min(suspectChunk, len(suspects))]
		suspects = suspects[len(chunk):]
		if err := d.lacking(ctx, chunk, lacks, first); err != nil {
			return err
		}
	}
	return nil
}

// lacking reports those events of which the stream holds no message at all, and
// which are not on their way again.
func (d *detection) lacking(ctx context.Context, sequences []int64, lacks map[int64]uint64, first uint64) error {
	g := Gap{Kind: NotInStream, Detail: "published, and the stream does not hold it"}
	var waits bool
	var positions []*int64
	return d.look(ctx, "deliveries", []any{sequences, d.bounds.partitions},
		[]any{&g.Sequence, &g.Stream, &g.EventID, &g.Version, &g.key, &waits, &positions, &g.Generation}, func() error {
			g.Position, g.Partition = lacks[g.Sequence], partition.Of(g.key, d.count)
			if waits || g.Position < first || !d.covers(g.Sequence, g.Stream, g.Partition) {
				return nil
			}
			for _, p := range positions {
				if p != nil && (d.present.has(uint64(*p)) || uint64(*p) > d.last) { //nolint:gosec // positions
					return nil
				}
			}
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
