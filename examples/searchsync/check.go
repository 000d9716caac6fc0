package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// report is how an index differs from the database.
type report struct {
	Documents int `json:"documents"`
	Entries   int `json:"entries"`
	// Missing documents are not in the index, of Stale ones it has another version or content, Extra ones do not exist.
	Missing []string `json:"missing"`
	Stale   []string `json:"stale"`
	Extra   []string `json:"extra"`
}

// differences is how many documents differ.
func (r report) differences() int { return len(r.Missing) + len(r.Stale) + len(r.Extra) }

// ids of what differs.
func (r report) ids() []string { return slices.Concat(r.Missing, r.Stale, r.Extra) }

// check compares an index with the database. It reads the entries of the whole index into memory, some 100 bytes each.
// What differs is looked at again until it does not, or settle is over: changes that are on their way are no fault.
func (s *syncer) check(ctx context.Context, in index, settle time.Duration) (report, error) {
	held := map[string]entry{}
	err := in.each(ctx, func(entries []entry) error {
		for _, e := range entries {
			held[e.ID] = e
		}
		return nil
	})
	if err != nil {
		return report{}, fmt.Errorf("read the index: %w", err)
	}
	r := report{Entries: len(held), Missing: []string{}, Stale: []string{}, Extra: []string{}}
	suspects := map[string]bool{}
	err = s.store.each(ctx, 1000, func(documents []document) error {
		r.Documents += len(documents)
		for _, d := range documents {
			if held[d.ID] != d.entry() {
				suspects[d.ID] = true
			}
			delete(held, d.ID)
		}
		return nil
	})
	if err != nil {
		return report{}, fmt.Errorf("read the documents: %w", err)
	}
	for id := range held {
		suspects[id] = true
	}
	if len(suspects) == 0 {
		return r, nil
	}
	if err := s.confirm(ctx, in, &r, suspects, settle); err != nil {
		return report{}, err
	}
	err = s.recount(ctx, in, &r)
	return r, err
}

// recount counts again what may have settled meanwhile.
func (s *syncer) recount(ctx context.Context, in index, r *report) error {
	r.Entries = 0
	err := in.each(ctx, func(entries []entry) error {
		r.Entries += len(entries)
		return nil
	})
	if err != nil {
		return err
	}
	return s.store.pool.QueryRow(ctx, `SELECT count(*) FROM documents WHERE deleted_at IS NULL`).Scan(&r.Documents)
}

// settleStep is the time between two looks at what differs.
const settleStep = 100 * time.Millisecond

// confirm looks at suspects until none is left or the time is over, and puts those that still differ into the report.
func (s *syncer) confirm(ctx context.Context, in index, r *report, suspects map[string]bool, settle time.Duration) error {
	for end := time.Now().Add(settle); ; {
		missing, stale, extra := []string{}, []string{}, []string{}
		for _, id := range slices.Sorted(maps.Keys(suspects)) {
			d, exists, e, held, err := s.compare(ctx, in, id)
			switch {
			case err != nil:
				return fmt.Errorf("look at %q again: %w", id, err)
			case exists && !held:
				missing = append(missing, id)
			case exists && e != d.entry():
				stale = append(stale, id)
			case held && !exists:
				extra = append(extra, id)
			default:
				delete(suspects, id)
			}
		}
		if len(suspects) == 0 || time.Now().After(end) {
			r.Missing, r.Stale, r.Extra = missing, stale, extra
			return nil
		}
		if !pause(ctx, settleStep) {
			return ctx.Err()
		}
	}
}

// compare reads both sides of a document while nobody brings it to an index.
func (s *syncer) compare(ctx context.Context, in index, id string) (d document, exists bool, e entry, held bool, err error) {
	err = pgx.BeginFunc(ctx, s.store.pool, func(tx pgx.Tx) error {
		if d, exists, err = lockTx(ctx, tx, id); err != nil {
			return err
		}
		e, held, err = in.lookup(ctx, id)
		return err
	})
	return d, exists, e, held, err
}

// repaired is what repair found, and how many of the documents the index did not take: Failed ones may be tried again,
// Refused ones are not taken as they are.
type repaired struct {
	report

	Failed  int `json:"failed"`
	Refused int `json:"refused"`
}

// repair brings what differs to the index.
func (s *syncer) repair(ctx context.Context, in index, settle time.Duration) (r repaired, err error) {
	if r.report, err = s.check(ctx, in, settle); err != nil {
		return r, err
	}
	for _, id := range r.ids() {
		err := pgx.BeginFunc(ctx, s.store.pool, func(tx pgx.Tx) error { return s.syncTx(ctx, tx, in, id) })
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case errors.Is(err, errRefused):
			r.Refused++
		case err != nil:
			r.Failed++
		}
		if err != nil {
			s.log.Warn("not repaired", "document", id, "error", err)
		}
	}
	return r, nil
}
