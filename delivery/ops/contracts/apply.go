package contracts

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

// Correction describes an act of Apply on one contract. A new contract has no Before, a dropped one no After. A kept contract stays,
// although the list does not name it.
type Correction struct {
	Before, After *Contract
	Kept          bool
}

// Apply gives the contracts the list's content, empty descriptions included, in one transaction. One of another type is kept, and dropped
// with Options.Prune. It returns the differing and the kept ones. To drop one or end its check needs Options.Confirmed.
func (s *Store) Apply(ctx context.Context, list []Contract, o Options) (all []Correction, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	err = s.change(ctx, o, func(tx pgx.Tx) error {
		there, err := pg.Collect(ctx, tx, s.sql.List, nil, row)
		if err != nil {
			return err
		}
		others, ends := map[string]*Contract{}, false
		for _, c := range there {
			others[c.Type] = &c
		}
		for _, c := range list {
			stored, err := s.fits(ctx, tx, c)
			if input := new(maintenance.InputError); errors.As(err, &input) {
				all = nil
				return maintenance.Refuse("file", "types.%s: %s %s", c.Type, input.Field, input.Problem)
			}
			if err != nil {
				return err
			}
			c.Schema = json.RawMessage(stored)
			before := others[c.Type]
			delete(others, c.Type)
			if before != nil && before.Checked == c.Checked && before.Description == c.Description && string(before.Schema) == stored {
				continue
			}
			all, ends = append(all, Correction{Before: before, After: &c}), ends || before != nil && before.Checked && !c.Checked
			if err := s.put(ctx, tx, c, before, o); err != nil {
				return err
			}
		}
		for _, c := range there {
			if others[c.Type] == nil {
				continue
			}
			all, ends = append(all, Correction{Before: &c, Kept: !o.Prune}), ends || o.Prune
			if o.Prune {
				err = s.remove(ctx, tx, &c, o)
			}
			if err != nil {
				return err
			}
		}
		if ends && !o.Confirmed && !o.DryRun {
			return maintenance.Refuse("yes", "confirms that types are dropped or checked no more; nothing was changed")
		}
		return nil
	})
	return all, err
}
