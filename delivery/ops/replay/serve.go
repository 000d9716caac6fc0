package replay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// look lies between two looks for replays to serve, relax follows a failure.
const (
	look  = 5 * time.Second
	relax = 30 * time.Second
)

// Serve runs the replays made for others to run (Spec.Rate), one after the other, until the context ends; then it lays the present one
// aside for another process. Several processes may serve: each replay is run by one of them, and by another one after a kill. This
// store's own replays begin at once. Serve never fails: it logs failures, notes them in the replay, and tries again.
func (s *Store) Serve(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		id, err := s.due(ctx)
		if id != 0 {
			err = s.serve(ctx, id)
		}
		wait := look
		switch {
		case err == nil && id != 0:
			continue // to the next one
		case err != nil && !benign(err) && ctx.Err() == nil:
			log.WarnContext(ctx, "a replay that was asked for cannot be run; it is tried again", "replay", id, "error", err)
			wait = relax
		}
		select {
		case <-s.asked:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (s *Store) ask() {
	select {
	case s.asked <- struct{}{}:
	default: // it is awake
	}
}

// due returns the next replay to serve; 0: none.
func (s *Store) due(ctx context.Context) (id int64, err error) {
	silent, err := s.untouched(ctx)
	if err != nil {
		return 0, err
	}
	err = s.sql.Due.Row(ctx, s.db, pg.Args{"dead": dead, "silent": silent}).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return id, err
}

// untouched returns the times of replays untouched for as long as makes one dead, although their times lie ahead of a clock that stepped
// back.
func (s *Store) untouched(ctx context.Context) ([]time.Time, error) {
	silent := []time.Time{}
	round := s.silent.Begin()
	rows, err := s.sql.Ahead.Rows(ctx, s.db, pg.Args{"steady": pg.Steady})
	if err != nil {
		return nil, err
	}
	var id int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		if round.Same(id, at) >= dead {
			silent = append(silent, at)
		}
		return nil
	})
	if err == nil {
		round.End()
	}
	return silent, err
}

func (s *Store) serve(ctx context.Context, id int64) error {
	j, err := s.Get(ctx, id)
	if err == nil {
		_, err = s.Run(ctx, id, RunConfig{Rate: j.Rate, served: true})
	}
	return err
}

// benign reports whether others changed the replay meanwhile, or its number is not the expected one: the replay says so itself.
func benign(err error) bool {
	var input *maintenance.InputError
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrEnded) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrLiveRunning) || errors.As(err, &input)
}
