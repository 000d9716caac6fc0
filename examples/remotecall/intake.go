package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// intake takes the events of calls out of the stream, once each: the inbox records the event in the transaction that lets
// its call go. It ends with the context, or where its connections are closed for good.
func intake(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn, wake func(target string), log *slog.Logger) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := inbox.Migrate(ctx, pool, inbox.DefaultSchema); err != nil {
		return err
	}
	box, err := inbox.New(pool, inbox.Config{
		Name: "remotecall", Logger: log,
		MaxAttempts: inbox.NoLimit, // only the database can fail here
		BackoffBase: 100 * time.Millisecond, BackoffMax: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	consumer, err := inbox.NewConsumer(box, js, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		target, err := arrivedTx(ctx, tx, m.Sequence, m.EventID)
		if err == nil && target != "" {
			wake(target) // somewhat early: if the commit comes later than the look, the lane's next poll finds the call
		}
		return nil, err
	}, inbox.ConsumerConfig{Filter: callFilter, LeaseTTL: 2 * time.Second})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := consumer.Run(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, inbox.ErrConfig) || errors.Is(err, inbox.ErrClosed) {
				return err
			}
			log.Warn("the intake begins again", "error", err)
			pause(ctx, nil, time.Second)
		}
	}
	return nil
}
