package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/tracing"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// discard takes spans as an exporter does, and forgets them.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

func provider(b *testing.B, ratio float64) *sdktrace.TracerProvider {
	b.Helper()
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = -1
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discard{}), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
	b.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

// load is a batch of a partition in which one event in every has a stored context.
func load(size, every int) (delivery.Batch, []delivery.Outcome) {
	messages := make([]delivery.Message, size)
	for i := range messages {
		stored := ""
		if every > 0 && i%every == 0 {
			stored = fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)
		}
		messages[i] = message(int64(i+1), stored, "")
		messages[i].Event.Payload = make([]byte, 250)
	}
	return batch(messages...)
}

// processor is what this process has used of the processors. The server runs in it, too.
func processor() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

var modes = []struct {
	name  string
	ratio float64
}{{"off", -1}, {"none-sampled", 0}, {"1-percent", 0.01}, {"100-percent", 1}}

const batchSize = 500

// BenchmarkSpan is what tracing alone costs for a batch of 500 events that all have a
// stored context: as one span with links, and as the alternative, a span each.
func BenchmarkSpan(b *testing.B) {
	work, outcomes := load(batchSize, 1)
	for _, mode := range modes[1:] {
		p := provider(b, mode.ratio)
		o := tracing.New(tracing.Config{Provider: p, Template: "events.{topic}.{type}", Stream: "EVENTS"})
		tracer := p.Tracer("each")
		b.Run("batch/"+mode.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Published(time.Now(), work, outcomes)
			}
		})
		b.Run("each/"+mode.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				now := time.Now()
				for range work.Messages {
					_, span := tracer.Start(context.Background(), "send", trace.WithNewRoot(), trace.WithTimestamp(now))
					span.End()
				}
			}
		})
	}
}

// BenchmarkPublish is the way through a real server, with and without tracing.
func BenchmarkPublish(b *testing.B) {
	server := natstest.Start(b, 1)
	found := server.Stream(b, 1).CachedInfo()
	nc, err := wire.Connect(server.URL(), b.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	for _, traced := range []int{0, 100, 1} {
		for _, mode := range modes {
			name := fmt.Sprintf("%s/traced-1-in-%d", mode.name, traced)
			b.Run(name, func(b *testing.B) {
				publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{Control: streams.Control{Outbox: uuid.New()}, Found: found})
				if err != nil {
					b.Fatal(err)
				}
				defer publisher.Close()
				work, _ := load(batchSize, traced)
				taken, err := publisher.Take(b.Context(), work.Lease, delivery.Known{})
				if err != nil {
					b.Fatal(err)
				}
				work.Session = taken.Session
				var o loop.Observer
				if mode.ratio >= 0 {
					o = tracing.New(tracing.Config{Provider: provider(b, mode.ratio), Template: "events.{topic}.{type}", Stream: "EVENTS"})
				}
				b.ReportAllocs()
				before := processor()
				for b.Loop() {
					began := time.Now()
					var outcomes []delivery.Outcome
					publisher.Publish([]delivery.Batch{work}, func(_ int, of []delivery.Outcome) { outcomes = of })
					if outcomes[0].Kind != delivery.Published {
						b.Fatal(outcomes[0].Err)
					}
					if o != nil {
						o.Published(began, work, outcomes)
					}
				}
				b.ReportMetric(float64(b.N*batchSize)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(processor()-before)/float64(b.N*batchSize), "cpu-ns/event")
			})
		}
	}
}
