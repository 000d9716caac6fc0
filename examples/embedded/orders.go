package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
)

const createOrders = `CREATE TABLE IF NOT EXISTS example_orders (
	id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int NOT NULL)`

// orders takes orders.
type orders struct {
	pool     *pgxpool.Pool
	producer *outbox.Producer
	ring     func(...outbox.Appended)
}

// ServeHTTP writes the order and tells of it in one transaction: both are committed or neither is.
func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	amount, err := strconv.Atoi(r.FormValue("amount"))
	if err != nil || amount < 1 {
		http.Error(w, "amount must be a number above 0", http.StatusBadRequest)
		return
	}
	var id int
	var appended []outbox.Appended
	ctx := r.Context()
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `INSERT INTO example_orders (amount) VALUES ($1) RETURNING id`, amount).Scan(&id); err != nil {
			return err
		}
		body, err := json.Marshal(map[string]int{"order": id, "amount": amount})
		if err != nil {
			return err
		}
		appended, err = o.producer.AppendTx(ctx, tx, outbox.Event{
			StreamID: fmt.Sprint("order-", id), Topic: "shop", Type: "order.placed", Payload: body,
		})
		return err
	})
	if err != nil {
		http.Error(w, "the order was not taken", http.StatusServiceUnavailable)
		return
	}
	o.ring(appended...) // after the commit: inside the transaction the worker would look for a row that is not visible yet
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, "order", id)
}
