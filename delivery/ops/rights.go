package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
)

// Missing lists the operator's rights that the role lacks, each written as the GRANT needs it: "UPDATE (paused_at, updated_at) ON
// public.outbox_partitions".
type Missing struct {
	// Look is for every list and every message, Act for every change. Audit, Payload and Replays are for reading those. Replay is for
	// making and running replays, Resize for changing the number of partitions.
	Look, Act, Audit, Payload, Replays, Replay, Resize []string
}

// Unfit reports whether an error of Renew or MissingRights blames the relation, or the rights to the schema itself.
func Unfit(err error) bool {
	return errors.Is(err, pgstore.ErrEventsRelation) || pg.Refused(err, "42501")
}

// MissingRights returns the rights that the operator's role lacks.
func (o *Operator) MissingRights(ctx context.Context) (Missing, error) {
	var m Missing
	err := o.outbox.Read(ctx, func(tx pgx.Tx) error {
		rows, err := o.sql.Rights.Rows(ctx, tx, nil)
		if err != nil {
			return err
		}
		lists := map[string]*[]string{
			"look": &m.Look, "act": &m.Act, "audit": &m.Audit, "payload": &m.Payload, "replays": &m.Replays, "replay": &m.Replay, "resize": &m.Resize,
		}
		var purpose, right string
		_, err = pgx.ForEachRow(rows, []any{&purpose, &right}, func() error {
			*lists[purpose] = append(*lists[purpose], right)
			return nil
		})
		return err
	})
	if err != nil {
		return Missing{}, fmt.Errorf("look at the role's rights: %w", err)
	}
	return m, nil
}
