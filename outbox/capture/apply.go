package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The acts of Apply on a capture.
const (
	Created = "create"
	Changed = "change"
	Dropped = "drop"
	Kept    = "keep" // not in the list, and left alone
)

// Captures returns the existing captures in Apply's form. The rest of a dropped table's trigger is none.
func (s *Store) Captures(ctx context.Context) (list []Capture, err error) {
	all, err := s.list(ctx, s.db)
	for _, t := range all {
		if t.Purpose != Captured || t.oid == 0 {
			continue
		}
		c, err := t.capture()
		if err != nil {
			return nil, err
		}
		if c.Table = t.Table; strings.Count(c.Table, ".") > 1 || strings.Contains(c.Table, `"`) {
			c.Table = t.table.quoted()
		}
		list = append(list, c)
	}
	return list, err
}

// Apply makes the captures equal to the list, in one transaction: a missing setting has its default. One of another table is kept, and
// dropped with Options.Prune. It returns differing and kept ones. Differences need Options.Confirmed.
func (s *Store) Apply(ctx context.Context, list []Capture, o Options) (all []Done, err error) {
	unconfirmed := !o.DryRun && !o.Confirmed
	o.Replace, o.DryRun = true, o.DryRun || unconfirmed
	err = s.transaction(ctx, o, func(tx pgx.Tx) error {
		var plan []Done
		meant := map[uint32]bool{}
		for _, c := range list {
			t, drop, err := s.place(ctx, tx, c.Table, o)
			if err != nil {
				return fmt.Errorf("captures.%s: %w", c.Table, err)
			}
			if meant[t.oid] {
				return refuse("captures.%s: %s is there twice", c.Table, t)
			}
			meant[t.oid] = true
			done, err := s.planned(ctx, tx, &c, t, drop, false, o)
			if err != nil {
				return fmt.Errorf("captures.%s: %w", c.Table, err)
			}
			if t.before == nil || len(done.Changes) > 0 {
				plan = append(plan, done)
			}
		}
		there, err := s.list(ctx, tx)
		for _, t := range there {
			if t.Purpose != Captured || meant[t.oid] {
				continue
			}
			done := Done{Table: t.Table, Action: Kept}
			if o.Prune {
				back, err := s.comesBack(ctx, tx, &t, o)
				if err != nil {
					return err
				}
				done.Action, done.SQL = Dropped, append(t.dropped(), back...)
			}
			plan = append(plan, done)
		}
		all = plan
		for _, done := range all {
			if err == nil {
				err = s.execute(ctx, tx, done, o)
			}
		}
		if err == nil && unconfirmed && slices.ContainsFunc(all, func(d Done) bool { return d.Action != Kept }) {
			return refuse("--yes: confirms that these captures change; nothing was changed")
		}
		return err
	})
	return all, err
}
