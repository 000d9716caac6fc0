package parts

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// Who names the actor and the reason, for the audit.
type Who struct{ Actor, Reason string }

func (w Who) validate(reasonRequired bool) error {
	return maintenance.CheckWords(w.Actor, w.Reason, reasonRequired)
}

// Hindrance returns the obstacle to putting events into parts; "" if nothing does, or if they are.
func (s *Store) Hindrance(ctx context.Context) (string, error) {
	_, hindrance, err := s.state(ctx)
	return hindrance, err
}

// Split puts events into parts, of which the present ones are the first. It reads the table once, beside producers, and locks
// it for an instant at the end. It reports whether there was anything to do.
func (s *Store) Split(ctx context.Context, who Who) (bool, error) {
	if err := who.validate(true); err != nil {
		return false, err
	}
	split, hindrance, err := s.state(ctx)
	switch {
	case err != nil || split:
		return false, err
	case hindrance != "":
		return false, maintenance.Refuse("events", "%s; remove that first, and make it anew afterwards", hindrance)
	}
	bound := func(tx pgx.Tx) error {
		_, err := s.sql.Bound.Exec(ctx, tx, nil)
		return err
	}
	if err := s.locked(ctx, true, bound); err != nil {
		return false, fmt.Errorf("bound the table of events: %w", err)
	}
	if _, err := s.sql.Validate.Exec(ctx, s.pool, nil); err != nil {
		return false, fmt.Errorf("check that the events lie below the bound: %w", err)
	}
	err = s.locked(ctx, true, func(tx pgx.Tx) error {
		if _, err := s.sql.Split.Exec(ctx, tx, nil); err != nil {
			return err
		}
		return s.audit.Record(ctx, tx, who.Actor, "events.split", nil, who.Reason, nil)
	})
	if err != nil {
		return false, fmt.Errorf("put events into parts: %w", err)
	}
	return true, s.analyze(ctx)
}

// Begin begins the next part. It reports its number, and false where the last part is empty and stays the one to be filled.
func (s *Store) Begin(ctx context.Context, who Who) (part int64, begun bool, err error) {
	if err := who.validate(false); err != nil {
		return 0, false, err
	}
	if err := s.mustBeSplit(ctx); err != nil {
		return 0, false, err
	}
	var number *int64
	err = s.locked(ctx, false, func(tx pgx.Tx) error {
		if err := s.sql.Begin.Row(ctx, tx, nil).Scan(&number); err != nil || number == nil {
			return err
		}
		return s.audit.Record(ctx, tx, who.Actor, "events.begin", map[string]int64{"part": *number}, who.Reason, nil)
	})
	if err != nil || number == nil {
		return 0, false, wrap("begin a part of events", err)
	}
	return *number, true, s.analyze(ctx)
}

// Archived names a part's file and counts its events.
type Archived struct {
	File   string `json:"archive,omitempty"`
	Events int    `json:"archived"`
}

// Drop drops the oldest part. Where it may not, the error is an InputError.
func (s *Store) Drop(ctx context.Context, part Part, archived Archived, who Who) error {
	if err := who.validate(true); err != nil {
		return err
	}
	return wrap(fmt.Sprintf("drop part %d of the events", part.Number), s.locked(ctx, true, func(tx pgx.Tx) error {
		var problem *string
		if err := s.sql.Drop.Row(ctx, tx, pg.Args{"part": part.Number}).Scan(&problem); err != nil {
			return err
		}
		if problem != nil {
			return maintenance.Refuse("part", "%s", *problem)
		}
		return s.audit.Record(ctx, tx, who.Actor, "events.drop", part, who.Reason, archived)
	}))
}

func (s *Store) analyze(ctx context.Context) error {
	_, err := s.sql.Analyze.Exec(ctx, s.pool, nil)
	return wrap("analyze the events", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
