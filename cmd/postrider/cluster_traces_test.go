package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collected "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
)

// producing is a transaction of a traced producer: it appends the events with the
// span's context.
func producing(t *testing.T, c *clustertest.Cluster, tracer trace.Tracer, events int) (trace.SpanContext, []outbox.Appended) {
	t.Helper()
	ctx, span := tracer.Start(t.Context(), "place order")
	defer span.End()
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]outbox.Event, events)
	for i := range list {
		list[i] = outbox.Event{
			StreamID: "order-" + uuid.NewString(), Type: "order.paid", Payload: []byte("{}"),
			Metadata: outbox.Metadata{TraceParent: carrier.Get("traceparent"), TraceState: "vendor=opaque"},
		}
	}
	var appended []outbox.Appended
	err = pgx.BeginFunc(ctx, c.Pool, func(tx pgx.Tx) (err error) {
		appended, err = producer.AppendTx(ctx, tx, list...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return span.SpanContext(), appended
}

// hostile puts events into the outbox whose trace context no producer could append.
func hostile(t *testing.T, c *clustertest.Cluster) (events int) {
	t.Helper()
	for _, context := range []string{
		"garbage", "00-00000000000000000000000000000000-0000000000000000-01", "a\r\nNats-Rollup: all", strings.Repeat("x", 1<<20),
	} {
		err := pgx.BeginFunc(t.Context(), c.Pool, func(tx pgx.Tx) error {
			var sequence int64
			if err := tx.QueryRow(t.Context(), `SELECT outbox_append('hostile', 'order.paid', '{}'::jsonb)`).Scan(&sequence); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), `UPDATE events SET metadata = jsonb_build_object('traceparent', $2::text, 'tracestate', $2::text) WHERE sequence = $1`,
				sequence, context)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		events++
	}
	return events
}

// consume reads that many messages from the beginning of the stream.
func consume(t *testing.T, c *clustertest.Cluster, messages int) map[string]jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	consumer, err := c.NATS.JetStream(t).OrderedConsumer(ctx, "EVENTS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	byEvent := map[string]jetstream.Msg{}
	for len(byEvent) < messages {
		m, err := consumer.Next(jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatalf("after %d messages: %v", len(byEvent), err)
		}
		byEvent[m.Headers().Get("Outbox-Event-Id")] = m
	}
	return byEvent
}

// continued starts a consumer's span under what a message carries.
func continued(tracer trace.Tracer, m jetstream.Msg) (parent, own trace.SpanContext) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(http.Header{
		"Traceparent": {m.Headers().Get("traceparent")}, "Tracestate": {m.Headers().Get("tracestate")},
	}))
	_, span := tracer.Start(ctx, "handle order")
	span.End()
	return trace.SpanContextFromContext(ctx), span.SpanContext()
}

// A trace goes from the producer through the relay to the consumer; what the
// relay does links to it.
func TestTracesGoFromProducerToConsumer(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, protocol := range []string{"http/protobuf", "grpc"} { //nolint:paralleltest // clusters run one at a time
		t.Run(protocol, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{Partitions: 4})
			collector := startCollector(t)
			endpoint := map[string]string{"http/protobuf": collector.HTTP, "grpc": collector.GRPC}[protocol]
			tracer := sdktrace.NewTracerProvider().Tracer("test")
			bad := hostile(t, c)
			origin, appended := producing(t, c, tracer, 300)
			worker := clustertest.Launch(t, "worker", append(c.Environment(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint,
				"OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"), "run", "--http-addr=off")
			messages := consume(t, c, len(appended)+bad)
			for _, a := range appended {
				parent, own := continued(tracer, messages[a.EventID.String()])
				if parent.TraceID() != origin.TraceID() || parent.SpanID() != origin.SpanID() || own.TraceID() != origin.TraceID() ||
					parent.TraceState().String() != "vendor=opaque" || !own.IsSampled() {
					t.Fatalf("the producer's span is %v, the consumer's parent %v, its span %v", origin, parent, own)
				}
			}
			worker.Signal(t, syscall.SIGTERM)
			if code := worker.Exit(t); code != exitOK {
				t.Errorf("status %d", code)
			}
			spans := collector.wait(t, "the worker's last span is there", func(spans []receivedSpan) bool { return has(spans, "hand over") })
			checkSpans(t, spans, origin, appended)
		})
	}
}

func has(spans []receivedSpan, name string) bool {
	for _, s := range spans {
		if s.Name == name {
			return true
		}
	}
	return false
}

// checkSpans wants a link to the producer's span for each event, and nothing else linked.
func checkSpans(t *testing.T, spans []receivedSpan, origin trace.SpanContext, appended []outbox.Appended) {
	t.Helper()
	linked := map[string]int{}
	for _, s := range spans {
		if s.Failed || s.Parent != "" || s.Trace == origin.TraceID().String() {
			t.Errorf("span %q is a child, or failed: %+v", s.Name, s)
		}
		if s.Resource["service.name"] != "postrider" || s.Resource["deployment.environment.name"] != "test" || s.Resource["service.instance.id"] == "" {
			t.Errorf("the resource is %v", s.Resource)
		}
		sends := s.Name == "send events.{topic}.{type}"
		if sends != (s.Kind == collected.Span_SPAN_KIND_PRODUCER) || sends != (s.Attributes["messaging.system"] == "nats") {
			t.Errorf("span %q is of kind %s with %v", s.Name, s.Kind, s.Attributes)
		}
		for _, l := range s.Links {
			if l.Trace != origin.TraceID().String() || l.Span != origin.SpanID().String() || !sends {
				t.Errorf("span %q links to %+v", s.Name, l)
			}
			linked[l.Attributes["messaging.message.id"]]++
		}
	}
	for _, name := range []string{"acquire", "take", "claim", "send events.{topic}.{type}", "mark", "hand over"} {
		if !has(spans, name) {
			t.Errorf("there is no span %q", name)
		}
	}
	for _, a := range appended {
		if linked[a.EventID.String()] != 1 {
			t.Errorf("event %s is linked %d times", a.EventID, linked[a.EventID.String()])
		}
	}
	if len(linked) != len(appended) {
		t.Errorf("%d events are linked, %d have a trace", len(linked), len(appended))
	}
}

// A collector that is away, or hangs, holds up neither delivery nor the end, and
// is worth one line.
func TestWithoutACollectorNothingWaits(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, endpoint := range map[string]string{"away": "http://" + nobody, "silent": silentCollector(t)} {
		t.Run(name, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{Partitions: 4})
			worker := clustertest.Launch(t, "worker", append(c.Environment(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint,
				"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BSP_EXPORT_TIMEOUT=1000", "OTEL_BSP_MAX_QUEUE_SIZE=64"), "run", "--http-addr=off", "--json")
			s := c.Subscribe(t, nil)
			load := c.Produce(t, clustertest.Load{})
			s.WaitReceived(t, 500)
			worker.WaitLog(t, "traces cannot be exported")
			s.WaitReceived(t, 500)
			load.Stop(t)
			c.Drain(t)
			start := time.Now()
			worker.Signal(t, syscall.SIGTERM)
			if code := worker.Exit(t); code != exitOK {
				t.Errorf("status %d", code)
			}
			if took := time.Since(start); took > traceFlush+5*time.Second {
				t.Errorf("the end took %s", took)
			}
			if n := strings.Count(worker.Stderr(), "traces cannot be exported"); n != 1 {
				t.Errorf("%d lines about it:\n%s", n, worker.Stderr())
			}
			c.Verify(t)
		})
	}
}

func TestTheEnvironmentDecidesAboutTraces(t *testing.T) {
	t.Parallel()
	const endpoint = "http://collector:4318"
	for name, c := range map[string]struct {
		env     map[string]string
		on      bool
		refused string
	}{
		"nothing":            {},
		"exporter":           {env: map[string]string{envExporter: "otlp"}, on: true},
		"endpoint":           {env: map[string]string{envEndpoint: endpoint}, on: true},
		"endpoint of traces": {env: map[string]string{envTracesEndpoint: endpoint}, on: true},
		"disabled":           {env: map[string]string{envEndpoint: endpoint, envDisabled: "true"}},
		"no exporter":        {env: map[string]string{envEndpoint: endpoint, envExporter: "none"}},
		"off, and wrong":     {env: map[string]string{envSampler: "nonsense"}},
		"other exporter":     {env: map[string]string{envExporter: "zipkin"}, on: true, refused: envExporter},
		"no URL":             {env: map[string]string{envEndpoint: "collector:4318"}, on: true, refused: envEndpoint},
		"secret URL":         {env: map[string]string{envEndpoint: "ftp://u:" + planted + "@h"}, on: true, refused: envEndpoint},
		"protocol":           {env: map[string]string{envEndpoint: endpoint, envProtocol: "http/json"}, on: true, refused: envProtocol},
		"sampler":            {env: map[string]string{envEndpoint: endpoint, envSampler: "sometimes"}, on: true, refused: envSampler},
		"ratio":              {env: map[string]string{envEndpoint: endpoint, envSampler: "traceidratio", envSamplerRatio: "2"}, on: true, refused: envSamplerRatio},
		"queue":              {env: map[string]string{envEndpoint: endpoint, envQueue: "abc"}, on: true, refused: envQueue},
		"batch of none":      {env: map[string]string{envEndpoint: endpoint, envBatch: "0"}, on: true, refused: envBatch},
		"links":              {env: map[string]string{envEndpoint: endpoint, envLinks: "many"}, on: true, refused: envLinks},
		"time-out":           {env: map[string]string{envEndpoint: endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "5s"}, on: true, refused: "OTEL_EXPORTER_OTLP_TIMEOUT"},
		"headers, colon":     {env: map[string]string{envEndpoint: endpoint, envHeaders[0]: "Authorization: " + planted}, on: true, refused: envHeaders[0]},
		"headers, name":      {env: map[string]string{envEndpoint: endpoint, envHeaders[1]: "Authorization: Basic " + planted + "=="}, on: true, refused: envHeaders[1]},
		"headers, escape":    {env: map[string]string{envEndpoint: endpoint, envHeaders[0]: "a=b,c=" + planted + "%x"}, on: true, refused: envHeaders[0]},
		"good numbers":       {env: map[string]string{envEndpoint: endpoint, envQueue: "64", envHeaders[0]: "a=Bearer%20" + planted + ", b=c=="}, on: true},
		"good ratio":         {env: map[string]string{envEndpoint: endpoint, envSampler: "parentbased_traceidratio", envSamplerRatio: "0.01"}, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getenv := func(name string) string { return c.env[name] }
			if on := exportsTraces(getenv); on != c.on {
				t.Errorf("on is %v", on)
			}
			err := validateTraces(getenv)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused+" must be") {
				t.Errorf("it says %v", err)
			}
			wantNoSecret(t, fmt.Sprint(err))
		})
	}
}
