package orms

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/postrider/postrider/outbox"
)

// bunOrder is the model of Bun.
type bunOrder struct {
	bun.BaseModel `bun:"table:orders"`

	ID       int64 `bun:",pk,autoincrement"`
	Customer int64
	Amount   int64
}

// PlaceWithBun stores the order and its event. The producer gets the *sql.Tx in Bun's transaction: Bun's own QueryContext writes arguments
// into the text where it finds a ?, and hands none on.
func PlaceWithBun(ctx context.Context, db *bun.DB, producer *outbox.Producer, order Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		row := bunOrder{Customer: order.Customer, Amount: order.Amount}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		_, err := producer.AppendSQL(ctx, tx.Tx, order.placed(row.ID))
		return err
	})
}
