package outbox_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// The event is committed with the change that it tells of, or not at all.
func ExampleProducer_AppendTx() {
	pay := func(ctx context.Context, pool *pgxpool.Pool, producer *outbox.Producer, order string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
				return err
			}
			_, err := producer.AppendTx(ctx, tx, outbox.Event{
				StreamID: "order-" + order,
				Type:     "order.paid",
				Topic:    "shop",
				Payload:  []byte(`{"amount": 12}`),
			})
			return err
		})
	}
	_ = pay
}

// A decision that was made on version 3 of a stream is written as version 4, or
// made again.
func ExampleExactVersion() {
	event := outbox.Event{StreamID: "order-17", Type: "order.cancelled", ExpectedVersion: outbox.ExactVersion(3)}
	decide := func(ctx context.Context, tx pgx.Tx, producer *outbox.Producer) error {
		_, err := producer.AppendTx(ctx, tx, event)
		if errors.Is(err, outbox.ErrVersionConflict) {
			return fmt.Errorf("roll back, read the order again and decide anew: %w", err)
		}
		return err
	}
	_ = decide
}

// What needs no consumer is stored without being published.
func ExampleConfig_policy() {
	producer, err := outbox.New(outbox.Config{
		Policy: func(e outbox.Event) bool { return e.Topic != "internal" },
	})
	fmt.Println(producer != nil, err)
	// Output: true <nil>
}

func ExampleBellBody() {
	appended := []outbox.Appended{ // what AppendTx returned
		{Partition: 3, Enqueued: true}, {Partition: 258, Enqueued: true}, {Partition: 3, Enqueued: true}, {Duplicate: true},
	}
	body := outbox.BellBody(appended...)
	fmt.Printf("%x\n", body)
	fmt.Println(partition.ParseIDs(body))
	// Output:
	// 00030102
	// [3 258] true
}

func ExampleBellSubject() {
	fmt.Println(outbox.BellSubject("public"))
	// Output: outbox.bell.public
}
