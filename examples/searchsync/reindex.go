package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	reindexPage = 500
	// rounds is how often the differences of a rebuilt index are mended before it counts as failing.
	rounds = 5
)

// reindex builds a fresh index from the database and swaps it in when it is complete. The old one is searched, and kept
// in step, until then. What changed meanwhile is mended afterwards. say tells how far it is.
func (s *syncer) reindex(ctx context.Context, say func(format string, args ...any)) (err error) {
	fresh, err := s.index.rebuild(ctx)
	if err != nil {
		return fmt.Errorf("begin a fresh index: %w", err)
	}
	swapped := false
	defer func() {
		if !swapped {
			err = errors.Join(err, fresh.discard(context.WithoutCancel(ctx)))
		}
	}()
	n, began := 0, time.Now()
	err = s.store.each(ctx, reindexPage, func(documents []document) error {
		if err := s.fill(ctx, fresh, documents); err != nil {
			return fmt.Errorf("fill the fresh index: %w", err)
		}
		n += len(documents)
		say("%d documents, %.1f s", n, time.Since(began).Seconds())
		return nil
	})
	if err != nil {
		return err
	}
	// Most of what changed while it was filled; little is left for after the swap.
	if _, err := s.repair(ctx, fresh, 0); err != nil {
		return err
	}
	if err := fresh.swap(ctx); err != nil {
		return fmt.Errorf("swap the fresh index in: %w", err)
	}
	swapped = true
	say("swapped in")
	for range rounds {
		r, err := s.repair(ctx, s.index, 0)
		if err != nil {
			return fmt.Errorf("the fresh index is in use, and may differ: run repair: %w", err)
		}
		say("%d documents had changed meanwhile, or are refused", r.differences())
		if r.Failed == 0 {
			return nil
		}
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
	return errors.New("the fresh index is in use, and differs: run repair")
}

// fill puts documents into a fresh index; an outage of it costs time only. One document that the index refuses must not
// keep the others out: then they go one by one, and the check names it.
func (s *syncer) fill(ctx context.Context, fresh index, documents []document) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := fresh.put(ctx, documents...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errRefused) && len(documents) == 1:
			s.log.Warn("left out", "document", documents[0].ID, "error", err)
			return nil
		case errors.Is(err, errRefused):
			half := len(documents) / 2
			return errors.Join(s.fill(ctx, fresh, documents[:half]), s.fill(ctx, fresh, documents[half:]))
		}
		s.log.Warn("the fresh index does not take documents", "error", err, "next_in", wait)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}
