package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed bank.sql
var bankTables string

// settle is the name of the callback of transfers.
const settle = "settle"

// deposit is a transfer's call.
type deposit struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
}

// transfer takes the money from an account at home and writes the call that brings it to another bank: both or neither.
func transfer(ctx context.Context, pool *pgxpool.Pool, s *sender, payer, target string, d deposit) (id int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		paid, err := tx.Exec(ctx, `UPDATE bank_accounts SET balance = balance - $2 WHERE account = $1`, payer, d.Amount)
		if refusedBy(err, "23514") { // check constraint
			return fmt.Errorf("account %q does not hold %d", payer, d.Amount)
		}
		if err != nil {
			return err
		}
		if paid.RowsAffected() == 0 {
			return fmt.Errorf("there is no account %q", payer)
		}
		if id, err = s.sendTx(ctx, tx, call{Target: target, Procedure: "deposit", Arguments: d, OnResult: settle}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO bank_transfers (call_id, payer, amount) VALUES ($1, $2, $3)`, id, payer, d.Amount)
		return err
	})
	return id, err
}

// cancelTransfer takes a transfer back that was not sent, and its money.
func cancelTransfer(ctx context.Context, pool *pgxpool.Pool, id int64) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := cancelTx(ctx, tx, id); err != nil {
			return err
		}
		return endTx(ctx, tx, id, "cancelled", "")
	})
}

// callbacks of the bank at home.
func callbacks() map[string]callback {
	return map[string]callback{settle: func(ctx context.Context, tx pgx.Tx, r result) error {
		switch r.Outcome {
		case outcomeDone:
			return endTx(ctx, tx, r.ID, "settled", "")
		case outcomeFailed:
			return endTx(ctx, tx, r.ID, "refunded", string(r.Answer))
		}
		// Nobody knows whether the money arrived: a person must look, no program may guess.
		return endTx(ctx, tx, r.ID, "unclear", string(r.Answer))
	}}
}

// endTx ends a transfer. Refunded and cancelled ones give the money back.
func endTx(ctx context.Context, tx pgx.Tx, id int64, state, reason string) error {
	var payer string
	var amount int64
	err := tx.QueryRow(ctx, `UPDATE bank_transfers SET state = $2, reason = nullif($3, '')
		WHERE call_id = $1 AND state = 'under way' RETURNING payer, amount`, id, state, reason).Scan(&payer, &amount)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("there is no transfer %d under way", id)
	} else if err != nil || state == "settled" || state == "unclear" {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE bank_accounts SET balance = balance + $2 WHERE account = $1`, payer, amount)
	return err
}

// procedures of a bank that receives.
func procedures() map[string]procedure {
	return map[string]procedure{"deposit": func(ctx context.Context, tx pgx.Tx, arguments json.RawMessage) (any, error) {
		var d deposit
		if err := json.Unmarshal(arguments, &d); err != nil || d.Amount < 1 {
			return nil, &refusal{Reason: fmt.Sprintf("not a deposit: %s", arguments)}
		}
		var balance int64
		err := tx.QueryRow(ctx, `UPDATE bank_accounts SET balance = balance + $2 WHERE account = $1 RETURNING balance`,
			d.Account, d.Amount).Scan(&balance)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, &refusal{Reason: fmt.Sprintf("there is no account %q", d.Account)}
		}
		return map[string]int64{"balance": balance}, err
	}}
}

// openAccounts creates the bank's tables and these accounts.
func openAccounts(ctx context.Context, pool *pgxpool.Pool, balance int64, accounts ...string) error {
	if err := locked(ctx, pool, bankTables); err != nil {
		return err
	}
	for _, account := range accounts {
		if _, err := pool.Exec(ctx, `INSERT INTO bank_accounts VALUES ($1, $2) ON CONFLICT DO NOTHING`, account, balance); err != nil {
			return err
		}
	}
	return nil
}
