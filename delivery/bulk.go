package delivery

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// bulk is what the statement MarkPlaces (ADR 21) needs beyond the rows themselves, for
// each partition.
type bulk struct {
	low, high        integers
	first            bigints // stream sequence
	dense, ascending []bool  // sequences, stream sequences: one by one
}

const divisionByZero = "22012" // SQLSTATE

// errMoved says that rows are not where they were claimed.
var errMoved = errors.New("rows moved")

// bulk returns what it needs to settle everything at once by the rows' places;
// false where there is anything but rows published in their first attempt.
func (st *settlement) bulk() (bulk, bool) {
	rows := st.ready
	if len(st.parked.partitions) > 0 || len(st.park.partitions) > 0 || len(st.promoted) > 0 || st.retried {
		return bulk{}, false
	}
	var b bulk
	at := 0
	for _, id := range st.all.partitions {
		low := at
		dense, ascending, first := true, true, int64(math.MaxInt64)
		for ; at < len(rows.partitions) && rows.partitions[at] == id; at++ {
			if rows.generation[at] != 0 || rows.stream[at] == 0 || !rows.places[at].known {
				return bulk{}, false
			}
			first = min(first, int64(rows.stream[at])) // a stream's sequence never reaches 2^63
			if at > low {
				if rows.sequences[at] <= rows.sequences[at-1] {
					return bulk{}, false
				}
				dense = dense && rows.sequences[at] == rows.sequences[at-1]+1
				ascending = ascending && rows.stream[at] == rows.stream[at-1]+1
			}
		}
		if at == low {
			return bulk{}, false
		}
		b.low, b.high, b.first = append(b.low, int32(low+1)), append(b.high, int32(at)), append(b.first, first) // at most a window
		b.dense, b.ascending = append(b.dense, dense), append(b.ascending, ascending)
	}
	return b, at == len(rows.partitions)
}

// markBulk settles everything by the rows' places, or nothing and errMoved.
func (s *Store) markBulk(ctx context.Context, st settlement, b bulk) (held map[partition.ID]bool, at time.Time, err error) {
	held = map[partition.ID]bool{}
	batch := &pgx.Batch{}
	s.sql.Marking.Queue(batch, pg.Args{"server": st.server})
	s.sql.MarkPlaces.Queue(batch, pg.Args{
		"owner": st.owner, "partitions": st.all.partitions, "epochs": st.all.epochs,
		"delivered": st.all.delivered, "fence": st.all.fence, "stream": st.all.stream,
		"lows": b.low, "highs": b.high, "first_stream": b.first, "dense": b.dense, "ascending": b.ascending,
		"sequences": st.ready.sequences, "stream_sequences": st.ready.stream, "places": st.ready.places,
	}).Query(func(rows pgx.Rows) error {
		var id partition.ID
		var one int
		_, err := pgx.ForEachRow(rows, []any{&id, &at, &one}, func() error { held[id] = true; return nil })
		return err
	})
	err = s.db.SendBatch(ctx, batch).Close()
	if divided(err) {
		return nil, time.Time{}, errMoved
	}
	return held, at, err
}

// divided tells whether a statement undid itself.
func divided(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == divisionByZero
}
