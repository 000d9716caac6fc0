package orms

import (
	"context"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"

	"github.com/postrider/postrider/outbox"
)

// PlaceWithEnt stores the order and its event. The driver and its transaction are ent's own, which a generated client is built on; the
// builder stands for tx.Order.Create(). With
//
//	//go:generate go run entgo.io/ent/cmd/ent generate --feature sql/execquery ./schema
//
// the generated *ent.Tx has QueryContext itself: `producer.AppendSQL(ctx, tx, event)`, without the assertion below.
func PlaceWithEnt(ctx context.Context, driver *entsql.Driver, producer *outbox.Producer, order Order) error {
	tx, err := driver.Tx(ctx) // client.Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	id, err := createOrder(ctx, tx, order)
	if err != nil {
		return err
	}
	appending, is := tx.(outbox.SQLTx)
	if !is {
		return fmt.Errorf("a transaction of ent's SQL driver is needed, not %T", tx)
	}
	if _, err := producer.AppendSQL(ctx, appending, order.placed(id)); err != nil {
		return err
	}
	return tx.Commit()
}

// createOrder is what a generated client does in tx.Order.Create().SetCustomer(…).SetAmount(…).Save(ctx).
func createOrder(ctx context.Context, tx dialect.Tx, order Order) (int64, error) {
	insert, args := entsql.Dialect(dialect.Postgres).Insert("orders").Columns("customer", "amount").
		Values(order.Customer, order.Amount).Returning("id").Query()
	var rows entsql.Rows
	if err := tx.Query(ctx, insert, args, &rows); err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	return entsql.ScanInt64(rows)
}
