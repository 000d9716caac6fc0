//go:build unix

package natspub_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/processor"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/message/codec"
	"github.com/postrider/postrider/partition"
)

// BenchmarkPublish is what a message costs with more and fewer headers, server included: batches of 500 events of 300 bytes into a
// stream of one node with file storage.
func BenchmarkPublish(b *testing.B) {
	zstd, err := codec.NewCompressor(codec.Zstd, 0)
	if err != nil {
		b.Fatal(err)
	}
	for way, changes := range map[string][]func(*jetstream.StreamConfig){"in batches": nil, "one by one": {inTurn}} {
		for _, shape := range []struct {
			name    string
			headers wire.Headers
			zstd    *codec.Compressor
		}{
			{"plain", wire.Headers{}, nil},
			{"full", wire.Headers{Full: true}, nil},
			{"cloudevents", wire.Headers{CloudEvents: &shopEvents}, nil},
			{"zstd", wire.Headers{}, zstd},
		} {
			b.Run(way+"/"+shape.name, func(b *testing.B) { benchmarkPublish(b, changes, shape.headers, shape.zstd) })
		}
	}
}

func benchmarkPublish(b *testing.B, changes []func(*jetstream.StreamConfig), headers wire.Headers, c *codec.Compressor) {
	b.Helper()
	server := natstest.Start(b, 1)
	stream := server.Stream(b, 1, changes...)
	nc, err := wire.Connect(server.URL(), "benchmark", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	l := leasetest.Held(3, 7)
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{Shape: wire.Shape{Headers: headers, Compressor: c}, Found: stream.CachedInfo()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = publisher.Close() })
	taken, err := publisher.Take(b.Context(), l, delivery.Known{})
	if err != nil {
		b.Fatal(err)
	}
	const size = 500
	sent := 0
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		batch := delivery.Batch{Lease: l, Session: taken.Session}
		for i := range size {
			m := newMessage(int64(sent+i+1), fmt.Sprintf("order-%d", i), `{"customer":"c-1","text":"`+strings.Repeat("0123456789abcdef", 17)+`"}`)
			m.Event.OccurredAt = time.Now()
			batch.Messages = append(batch.Messages, m)
		}
		began := processor.Time(b)
		b.StartTimer()
		outcomes := publish(b, publisher, batch)
		b.StopTimer()
		used += processor.Time(b) - began
		for i, o := range outcomes {
			if o.Kind != delivery.Published {
				b.Fatalf("message %d: %+v", i, o)
			}
		}
		sent += size
		b.StartTimer()
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(sent), "cpu-ns/event")
	b.ReportMetric(float64(nc.Stats().OutBytes)/float64(sent), "B/event")
}

// BenchmarkLook is what a look that found little takes: a message of each of so many partitions, in one atomic batch or one by one.
func BenchmarkLook(b *testing.B) {
	for _, way := range []string{"batch", "single"} {
		for _, partitions := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("%s/%d", way, partitions), func(b *testing.B) { benchmarkLook(b, way == "single", partitions) })
		}
	}
}

func benchmarkLook(b *testing.B, single bool, partitions int) {
	b.Helper()
	server := natstest.Start(b, 1)
	stream, staging := server.Stream(b, 1), time.Nanosecond
	if single {
		staging = time.Hour
	}
	nc, err := wire.Connect(server.URL(), "benchmark", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{Found: stream.CachedInfo(), Staging: staging})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = publisher.Close() })
	look := make([]delivery.Batch, partitions)
	for i := range look {
		look[i].Lease = leasetest.Held(partition.ID(i), 7)
		taken, err := publisher.Take(b.Context(), look[i].Lease, delivery.Known{})
		if err != nil {
			b.Fatal(err)
		}
		look[i].Session = taken.Session
	}
	sent := 0
	began := processor.Time(b)
	for b.Loop() {
		for i := range look {
			sent++
			m := newMessage(int64(sent), "order-1", `{"customer":"c-1","text":"`+strings.Repeat("0123456789abcdef", 17)+`"}`)
			m.Partition = partition.ID(i)
			look[i].Messages = []delivery.Message{m}
		}
		publisher.Publish(look, func(i int, outcomes []delivery.Outcome) {
			if outcomes[0].Kind != delivery.Published {
				b.Errorf("message of partition %d: %+v", i, outcomes[0])
			}
		})
	}
	b.ReportMetric(float64((processor.Time(b)-began).Nanoseconds())/float64(sent), "cpu-ns/event")
}
