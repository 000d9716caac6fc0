package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/outbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: producer ORDER")
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return errors.New("DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS example_payments (
		payment int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_name text NOT NULL, amount int NOT NULL)`)
	if err != nil {
		return err
	}
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return err
	}
	appended, err := pay(ctx, pool, producer, args[0], 250)
	if err != nil {
		return err
	}
	for _, a := range appended {
		fmt.Printf("sequence %d, version %d of %s, partition %d, event id %s\n",
			a.Sequence, a.StreamVersion, args[0], a.Partition, a.EventID)
	}
	return ring(os.Getenv("NATS_URL"), appended)
}

// pay writes the payment and tells of it in one transaction: both are committed
// or neither is.
func pay(ctx context.Context, pool *pgxpool.Pool, producer *outbox.Producer, order string, amount int) ([]outbox.Appended, error) {
	body, err := json.Marshal(map[string]any{"order": order, "amount": amount})
	if err != nil {
		return nil, err
	}
	var appended []outbox.Appended
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO example_payments (order_name, amount) VALUES ($1, $2)`, order, amount); err != nil {
			return err
		}
		// Several events of one call travel in one statement, in this order.
		appended, err = producer.AppendTx(ctx, tx,
			outbox.Event{StreamID: order, Topic: "shop", Type: "order.paid", Payload: body},
			outbox.Event{StreamID: order, Topic: "shop", Type: "order.released", Payload: body},
		)
		return err
	})
	return appended, err
}

// ring wakes the workers. It comes after the commit, since a ring inside the
// transaction would make them look for a row that is not visible yet.
func ring(url string, appended []outbox.Appended) error {
	if url == "" {
		return nil
	}
	nc, err := nats.Connect(url, nats.Name("producer example"))
	if err != nil {
		return fmt.Errorf("the event is committed, but the doorbell cannot be rung: %w", err)
	}
	defer nc.Close()
	if err := nc.Publish(outbox.BellSubject("public"), outbox.BellBody(appended...)); err != nil {
		return err
	}
	return nc.Flush() // a long-lived program need not: its connection flushes by itself
}
