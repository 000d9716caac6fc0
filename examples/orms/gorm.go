package orms

import (
	"context"

	"gorm.io/gorm"

	"github.com/postrider/postrider/outbox"
)

// gormOrder is the model of GORM.
type gormOrder struct {
	ID       int64
	Customer int64
	Amount   int64
}

// TableName implements GORM's schema.Tabler.
func (gormOrder) TableName() string { return "orders" }

// PlaceWithGORM stores the order and its event. In a transaction GORM's ConnPool is the *sql.Tx.
func PlaceWithGORM(ctx context.Context, db *gorm.DB, producer *outbox.Producer, order Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		row := gormOrder{Customer: order.Customer, Amount: order.Amount}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		_, err := producer.AppendSQL(ctx, tx.Statement.ConnPool, order.placed(row.ID))
		return err
	})
}
