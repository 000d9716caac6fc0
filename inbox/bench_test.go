package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
)

// BenchmarkReading compares ways to bring messages into the database. One operation is one event.
func BenchmarkReading(b *testing.B) {
	for _, size := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("lanes/batch=%d", size), func(b *testing.B) {
			benchmarkReading(b, func(b *testing.B, r *benched) {
				b.Helper()
				config := inbox.ConsumerConfig{Lanes: 8, BatchSize: size}
				consumer, err := inbox.NewConsumer(r.box, r.js, tally, config)
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- consumer.Run(ctx) }()
				waitFor(b, r.pool, `SELECT coalesce(sum(events), 0) >= $1 FROM tally`, b.N)
				b.StopTimer()
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	// A durable consumer keeps order only with one message, or one batch, in flight at a time.
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("durable/batch=%d", size), func(b *testing.B) {
			benchmarkReading(b, func(b *testing.B, r *benched) {
				b.Helper()
				readDurable(b, r, size)
			})
		})
	}
}

func readDurable(b *testing.B, r *benched, size int) {
	b.Helper()
	consumer, err := r.js.CreateConsumer(b.Context(), natstest.StreamName, jetstream.ConsumerConfig{
		Durable: "bench", FilterSubject: "events.>", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: size,
	})
	if err != nil {
		b.Fatal(err)
	}
	for done := 0; done < b.N; {
		fetched, err := consumer.Fetch(min(size, b.N-done))
		if err != nil {
			b.Fatal(err)
		}
		var messages []message.Message
		var raw []jetstream.Msg
		for msg := range fetched.Messages() {
			m, err := message.FromJetStream(msg)
			if err != nil {
				b.Fatal(err)
			}
			messages, raw = append(messages, m), append(raw, msg)
		}
		if _, err := r.box.ProcessBatch(b.Context(), messages, tally); err != nil {
			b.Fatal(err)
		}
		for _, msg := range raw {
			if err := msg.Ack(); err != nil {
				b.Fatal(err)
			}
		}
		done += len(messages)
	}
}

type benched struct {
	*bundle
	js jetstream.JetStream
}

func benchmarkReading(b *testing.B, read func(*testing.B, *benched)) {
	b.Helper()
	b.StopTimer()
	r := &benched{bundle: newBundle(b)}
	tallyTable(b, r.pool)
	server := natstest.Start(b, 1)
	server.Stream(b, 1)
	r.js = server.JetStream(b)
	publish(b, r.js, b.N, 1000, 3)
	b.StartTimer()
	read(b, r)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBehindABrokenMessage measures what each message costs that comes behind one that cannot be applied.
func BenchmarkBehindABrokenMessage(b *testing.B) {
	broken := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errors.New("broken") }
	box := newBundle(b, func(c *inbox.Config) { c.BackoffBase, c.BackoffMax = time.Hour, time.Hour }).box
	if _, err := box.Process(b.Context(), event("s", 1), broken); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 500)
	for version := int64(2); b.Loop(); {
		var batch []message.Message
		for range 100 {
			m := event("s", version)
			m.Payload = payload
			batch = append(batch, m)
			version++
		}
		if _, err := box.ProcessBatch(b.Context(), batch, broken); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "parked/s")
}

// BenchmarkCall measures calls of one sender, one transaction each.
func BenchmarkCall(b *testing.B) {
	box := newBundle(b).box
	id := int64(0)
	for b.Loop() {
		id++
		_, err := box.Call(b.Context(), inbox.Call{Sender: "s", ID: id}, func(context.Context, pgx.Tx) ([]byte, error) {
			return []byte(strconv.FormatInt(id, 10)), nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
