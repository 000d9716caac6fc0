package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/tools/bench/measure"
)

const (
	watermillBatch = 1000
	watermillPoll  = 10 * time.Millisecond
)

func watermillSchema() sql.DefaultPostgreSQLSchema {
	return sql.DefaultPostgreSQLSchema{SubscribeBatchSize: watermillBatch}
}

func watermillTopic(n int) string { return "outbox_" + strconv.Itoa(n) }

// fillWatermill publishes the events into the tables of so many topics, by partition.
func fillWatermill(topics int) func(context.Context, string, iter.Seq[measure.PeerEvent]) error {
	return func(ctx context.Context, database string, events iter.Seq[measure.PeerEvent]) error {
		pool, err := pgxpool.New(ctx, database)
		if err != nil {
			return err
		}
		defer pool.Close()
		beginner := sql.BeginnerFromPgx(pool)
		for n := range topics {
			if err := initialize(ctx, beginner, watermillTopic(n)); err != nil {
				return err
			}
		}
		waiting := make([][]*message.Message, topics)
		for e := range events {
			m, err := watermillMessage(e)
			if err != nil {
				return err
			}
			n := int(e.Partition) % topics
			if waiting[n] = append(waiting[n], m); len(waiting[n]) == watermillBatch {
				if err := insert(ctx, pool, watermillTopic(n), waiting[n]); err != nil {
					return err
				}
				waiting[n] = nil
			}
		}
		for n, list := range waiting {
			if err := insert(ctx, pool, watermillTopic(n), list); err != nil {
				return err
			}
		}
		_, err = pool.Exec(ctx, `ANALYZE`)
		return err
	}
}

func initialize(ctx context.Context, db sql.Beginner, topic string) error {
	subscriber, err := sql.NewSubscriber(db, sql.SubscriberConfig{
		SchemaAdapter: watermillSchema(), OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	return errors.Join(subscriber.SubscribeInitialize(topic), subscriber.Close(), ctx.Err())
}

// insert appends messages in one transaction, as a producer does.
func insert(ctx context.Context, pool *pgxpool.Pool, topic string, list []*message.Message) error {
	if len(list) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insertTx(tx, topic, list...) })
}

func insertTx(tx pgx.Tx, topic string, list ...*message.Message) error {
	inner, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: watermillSchema()}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	publisher := forwarder.NewPublisher(inner, forwarder.PublisherConfig{ForwarderTopic: topic})
	return publisher.Publish("events", list...)
}

// subjectKey is the metadata that holds the subject; all others are headers.
const subjectKey = "subject"

func watermillMessage(e measure.PeerEvent) (*message.Message, error) {
	msg, err := e.Message()
	if err != nil {
		return nil, err
	}
	m := message.NewMessage(e.ID.String(), msg.Data)
	m.Metadata.Set(subjectKey, msg.Subject)
	for name := range msg.Header {
		m.Metadata.Set(name, msg.Header.Get(name))
	}
	return m, nil
}

// natsPublisher is Watermill's way to JetStream: a message is published, and acknowledged, before the next.
type natsPublisher struct{ js jetstream.JetStream }

// Publish implements message.Publisher.
func (p natsPublisher) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		msg := &nats.Msg{Subject: m.Metadata.Get(subjectKey), Data: m.Payload, Header: nats.Header{}}
		for name, value := range m.Metadata {
			if name != subjectKey {
				msg.Header[name] = []string{value}
			}
		}
		// As watermill-nats does, by the client's time-out of 5 s and not until the message's AckDeadline of 30 s.
		if _, err := p.js.PublishMsg(context.WithoutCancel(m.Context()), msg); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// Close implements message.Publisher.
func (natsPublisher) Close() error { return nil }

// drainingWatermill returns the fastest configuration for a backlog.
func drainingWatermill() sql.SubscriberConfig {
	return sql.SubscriberConfig{SchemaAdapter: watermillSchema(), PollInterval: watermillPoll}
}

func runWatermill(topics int, config sql.SubscriberConfig) func(context.Context, measure.PeerSettings, func() error) error {
	return func(ctx context.Context, s measure.PeerSettings, begin func() error) error {
		nc, err := nats.Connect(s.NATS, nats.MaxReconnects(-1))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		pool, err := pgxpool.New(ctx, s.Database+"&pool_max_conns="+strconv.Itoa(2*topics+4))
		if err != nil {
			return err
		}
		defer pool.Close()
		var all []*forwarder.Forwarder
		for n := range topics {
			f, err := newForwarder(pool, js, watermillTopic(n), config)
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		if err := begin(); err != nil {
			return err
		}
		ended := make(chan error, topics)
		for _, f := range all {
			go func() { ended <- f.Run(ctx) }()
		}
		for range all {
			err = errors.Join(err, <-ended)
		}
		return err
	}
}

func newForwarder(pool *pgxpool.Pool, js jetstream.JetStream, topic string, config sql.SubscriberConfig) (*forwarder.Forwarder, error) {
	config.OffsetsAdapter = sql.DefaultPostgreSQLOffsetsAdapter{}
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(pool), config, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	return forwarder.NewForwarder(subscriber, natsPublisher{js}, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: topic, CloseTimeout: 5 * time.Second})
}
