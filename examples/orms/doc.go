// Package orms writes an order and its event in one transaction, with GORM, ent, Bun and sqlc. Each way commits both or none.
//
//	library   transaction       given to the producer
//	GORM      *gorm.DB          AppendSQL(ctx, tx.Statement.ConnPool, event)
//	ent       *ent.Tx           AppendSQL(ctx, tx, event), made with the feature sql/execquery
//	Bun       bun.Tx            AppendSQL(ctx, tx.Tx, event): bun.Tx itself formats statements and drops the arguments of ours
//	sqlc      pgx.Tx, *sql.Tx   AppendTx or AppendSQL, beside queries.WithTx(tx)
//
// ent and sqlc generate code, of which there is none here: ent.go and sqlc.go say what stands for it.
//
// GORM's transaction may also be a savepoint (a Transaction within one), and its ConnPool may prepare statements; both work. So does every
// driver that the tests name: pgx's, lib/pq, Bun's.
//
// The tests run each against PostgreSQL: go -C examples/orms test .
package orms
