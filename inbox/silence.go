package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// silences is what ends later than it can, because the database's clock has stepped back: it is watched by this
// process's own clock, and over when it stayed as it is for as long as it was made to last.
type silences struct {
	readers pg.Watch[uuid.UUID, time.Time]
	lanes   pg.Watch[int, unrenewed]
	warned  bool
}

// unrenewed is a lease of a lane that nobody has renewed.
type unrenewed struct {
	epoch int64
	until time.Time
}

// living are the readers of the consumer that give signs of life, in the order of their ids.
func (r *reader) living(ctx context.Context) ([]uuid.UUID, error) {
	round := r.silence.readers.Begin()
	rows, err := r.box.sql.Readers.Rows(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "steady": pg.Steady})
	if err != nil {
		return nil, fmt.Errorf("list readers: %w", err)
	}
	var readers []uuid.UUID
	var id uuid.UUID
	var until time.Time
	var lasts *time.Duration
	behind := false
	if _, err := pgx.ForEachRow(rows, []any{&id, &until, &lasts}, func() error {
		behind = behind || lasts != nil
		if lasts == nil || round.Same(id, until) < *lasts {
			readers = append(readers, id)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list readers: %w", err)
	}
	round.End()
	if behind && !r.silence.warned {
		r.log.WarnContext(ctx, "the database's clock has stepped back: readers that live longer than they can are watched, and so are their lanes")
	}
	r.silence.warned = behind
	if !behind {
		return readers, nil
	}
	_, err = r.watchLanes(ctx) // from now on: what they hold is free when they are gone
	return readers, err
}

// silent adds to the arguments of Acquire the lanes whose leases are over although they end later.
func (r *reader) silent(ctx context.Context, args pg.Args) error {
	lanes, err := r.watchLanes(ctx)
	if err != nil {
		return err
	}
	numbers, epochs, until := []int{}, []int64{}, []time.Time{}
	for n, lane := range lanes {
		numbers, epochs, until = append(numbers, n), append(epochs, lane.epoch), append(until, lane.until)
	}
	args["silent"], args["silent_epochs"], args["silent_until"] = numbers, epochs, until
	return nil
}

// watchLanes looks at the leases that end later than they can, and returns those that are over.
func (r *reader) watchLanes(ctx context.Context) (map[int]unrenewed, error) {
	round := r.silence.lanes.Begin()
	rows, err := r.box.sql.Ahead.Rows(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "steady": pg.Steady})
	if err != nil {
		return nil, fmt.Errorf("watch lanes: %w", err)
	}
	over := map[int]unrenewed{}
	var number int
	var lane unrenewed
	var lasts time.Duration
	if _, err := pgx.ForEachRow(rows, []any{&number, &lane.epoch, &lane.until, &lasts}, func() error {
		if round.Same(number, lane) >= lasts {
			over[number] = lane
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("watch lanes: %w", err)
	}
	round.End()
	return over, nil
}
