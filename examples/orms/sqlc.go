package orms

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
)

// DBTX and Queries are written by hand in the form of what sqlc generates with `sql_package: pgx/v5` from
//
//	-- name: CreateOrder :one
//	INSERT INTO orders (customer, amount) VALUES ($1, $2) RETURNING id;
//
// With `sql_package: database/sql` WithTx takes a *sql.Tx, and AppendSQL the same one.
type DBTX interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Queries are the queries of the application.
type Queries struct{ db DBTX }

// New returns queries that run on a pool, a connection or a transaction.
func New(db DBTX) *Queries { return &Queries{db} }

// WithTx returns the same queries in a transaction.
func (q *Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{tx} }

// CreateOrder stores an order and returns its id.
func (q *Queries) CreateOrder(ctx context.Context, order Order) (id int64, err error) {
	err = q.db.QueryRow(ctx, `INSERT INTO orders (customer, amount) VALUES ($1, $2) RETURNING id`, order.Customer, order.Amount).Scan(&id)
	return id, err
}

// PlaceWithSqlc stores the order and its event.
func PlaceWithSqlc(ctx context.Context, pool *pgxpool.Pool, queries *Queries, producer *outbox.Producer, order Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		id, err := queries.WithTx(tx).CreateOrder(ctx, order)
		if err != nil {
			return err
		}
		_, err = producer.AppendTx(ctx, tx, order.placed(id))
		return err
	})
}
