package main

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// receivedSpan is a span as it was received.
type receivedSpan struct {
	Name       string
	Kind       trace.Span_SpanKind
	Trace      string // hexadecimal, as in traceparent
	Parent     string
	Failed     bool
	Attributes map[string]string
	Resource   map[string]string
	Links      []receivedLink
}

// receivedLink is a link of a span.
type receivedLink struct {
	Trace, Span string
	Attributes  map[string]string
}

// traceCollector is an OTLP collector that keeps what it gets.
type traceCollector struct {
	collector.UnimplementedTraceServiceServer

	// HTTP and GRPC are endpoints for OTEL_EXPORTER_OTLP_ENDPOINT.
	HTTP, GRPC string

	mu      sync.Mutex
	spans   []receivedSpan
	changed chan struct{} // closed by the next export
}

// startCollector starts a collector that ends with the test.
func startCollector(t testing.TB) *traceCollector {
	t.Helper()
	c := &traceCollector{changed: make(chan struct{})}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.serve(w, r); err != nil {
			t.Errorf("the collector was sent something else than traces: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(web.Close)
	listener := listenForTraces(t)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
	c.HTTP, c.GRPC = web.URL, "http://"+listener.Addr().String()
	return c
}

// silentCollector returns the endpoint of a collector that takes connections and never
// answers.
func silentCollector(t testing.TB) string {
	t.Helper()
	listener := listenForTraces(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		var open []net.Conn
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, connection)
		}
		for _, connection := range open {
			_ = connection.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return "http://" + listener.Addr().String()
}

func listenForTraces(t testing.TB) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (c *traceCollector) serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("%s %s of type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		from = unpacked
	}
	body, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	response, err := c.Export(r.Context(), &request)
	if err != nil {
		return err
	}
	answer, err := proto.Marshal(response)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, err = w.Write(answer)
	return err
}

// Export implements the collector's service.
func (c *traceCollector) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	var got []receivedSpan
	for _, from := range request.GetResourceSpans() {
		resource := spanAttributes(from.GetResource().GetAttributes())
		for _, scope := range from.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				one := receivedSpan{
					Name: s.GetName(), Kind: s.GetKind(), Trace: hex.EncodeToString(s.GetTraceId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Failed: s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR, Attributes: spanAttributes(s.GetAttributes()), Resource: resource,
				}
				for _, l := range s.GetLinks() {
					one.Links = append(one.Links, receivedLink{
						Trace: hex.EncodeToString(l.GetTraceId()), Span: hex.EncodeToString(l.GetSpanId()), Attributes: spanAttributes(l.GetAttributes()),
					})
				}
				got = append(got, one)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, got...)
	close(c.changed)
	c.changed = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

func spanAttributes(list []*common.KeyValue) map[string]string {
	values := make(map[string]string, len(list))
	for _, a := range list {
		if text, ok := a.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
			values[a.GetKey()] = text.StringValue
		} else {
			values[a.GetKey()] = fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return values
}

// wait waits until what was received is as wanted, and returns it.
func (c *traceCollector) wait(t testing.TB, what string, wanted func([]receivedSpan) bool) []receivedSpan {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c.mu.Lock()
		spans, changed := append([]receivedSpan(nil), c.spans...), c.changed
		c.mu.Unlock()
		if wanted(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("wait until %s: there are only %+v", what, spans)
		}
	}
}
