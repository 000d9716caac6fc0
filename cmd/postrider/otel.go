package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/buildinfo"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/worker"
)

// Variables read by this program; the SDK reads more by itself.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerRatio   = "OTEL_TRACES_SAMPLER_ARG"
	envLinks          = "OTEL_SPAN_LINK_COUNT_LIMIT"
	envQueue          = "OTEL_BSP_MAX_QUEUE_SIZE"
	envBatch          = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
)

var (
	envNumbers = []string{
		envLinks, envQueue, envBatch, "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
	}
	envHeaders = []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}
)

const (
	// traceFlush bounds a stop's wait for the last spans. Drain and flush together fit into the bound of the stop.
	traceFlush = 2 * time.Second
	// A batch's span has a link for each traced event, so few spans are kept and sent at once: 64 with 500 links each are about 4 MB, the
	// default limit of gRPC servers.
	traceQueue = 256
	traceBatch = 64
	// Backoff and time limit of exports to a busy collector.
	retryLeast, retryMost, retryFor = 500 * time.Millisecond, 5 * time.Second, 10 * time.Second
)

// exportsTraces reports whether the OTEL_* variables ask for traces.
func exportsTraces(getenv func(string) string) bool {
	disabled, _ := strconv.ParseBool(getenv(envDisabled)) // by the specification only "true" disables
	if disabled || getenv(envExporter) == "none" {
		return false
	}
	return getenv(envExporter) != "" || getenv(envEndpoint) != "" || getenv(envTracesEndpoint) != ""
}

// validateTraces refuses by name variables that the SDK would ignore or replace by a default.
func validateTraces(getenv func(string) string) error {
	if !exportsTraces(getenv) {
		return nil
	}
	refuse := func(name, want string) error {
		return fmt.Errorf("%w: %s must be %s, got %q", errRefused, name, want, redact(getenv(name)))
	}
	if e := getenv(envExporter); e != "" && e != "otlp" {
		return refuse(envExporter, "otlp or none")
	}
	for _, name := range []string{envEndpoint, envTracesEndpoint} {
		if text := getenv(name); text != "" {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return refuse(name, "a URL such as http://collector:4318")
			}
		}
	}
	for _, name := range []string{envProtocol, envTracesProtocol} {
		if !slices.Contains([]string{"", "grpc", "http/protobuf"}, getenv(name)) {
			return refuse(name, "grpc or http/protobuf")
		}
	}
	for _, name := range envNumbers {
		if n, err := strconv.Atoi(getenv(name)); getenv(name) != "" && (err != nil || n < 1) {
			return refuse(name, "a whole number above 0")
		}
	}
	for _, name := range envHeaders {
		if !readableHeaders(getenv(name)) { // their text may hold secrets
			return fmt.Errorf("%w: %s must be NAME=VALUE, several with commas between, the values percent-encoded", errRefused, name)
		}
	}
	switch getenv(envSampler) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		if ratio, err := strconv.ParseFloat(getenv(envSamplerRatio), 64); getenv(envSamplerRatio) != "" && (err != nil || ratio < 0 || ratio > 1) {
			return refuse(envSamplerRatio, "a number between 0 and 1")
		}
	default:
		return refuse(envSampler, "always_on, always_off, traceidratio, or one of these behind parentbased_")
	}
	return nil
}

// headerName matches a token of RFC 9110.
var headerName = regexp.MustCompile("^\\s*[\\w!#$%&'*+.^`|~-]+\\s*$")

// readableHeaders reports whether the exporter can read all headers. It would print the text of an unreadable one.
func readableHeaders(list string) bool {
	if strings.TrimSpace(list) == "" {
		return true
	}
	for one := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(one, "=")
		if _, err := url.PathUnescape(value); !found || !headerName.MatchString(name) || err != nil {
			return false
		}
	}
	return true
}

// traces makes and exports the spans of a worker.
type traces struct {
	log      *slog.Logger
	links    int // the limit of a span
	provider *sdktrace.TracerProvider
}

// newTraces returns nil where nothing is to be exported. It expects a validated environment.
func newTraces(c worker.Config) *traces {
	if !exportsTraces(os.Getenv) {
		return nil
	}
	return &traces{log: c.Logger, links: c.Delivery.BatchSize}
}

func (t *traces) start(ctx context.Context, id partition.WorkerID) (trace.TracerProvider, error) {
	otel.SetErrorHandler(otelErrors(t.log)) //nolint:contextcheck // goroutines of the SDK report errors
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces (OTEL_EXPORTER_OTLP_*): %w", err)
	}
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "postrider"), attribute.String("service.version", buildinfo.Version()),
		attribute.String("service.instance.id", id.String()), attribute.Int("process.pid", os.Getpid()),
	), resource.WithFromEnv()) // the environment wins
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("traces (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	if os.Getenv(envLinks) == "" {
		limits.LinkCountLimit = t.links
	}
	var batching []sdktrace.BatchSpanProcessorOption
	if os.Getenv(envQueue) == "" {
		batching = append(batching, sdktrace.WithMaxQueueSize(traceQueue))
	}
	if os.Getenv(envBatch) == "" {
		batching = append(batching, sdktrace.WithMaxExportBatchSize(traceBatch))
	}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(self), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(&calmExporter{SpanExporter: exporter, log: t.log}, batching...))
	return t.provider, nil
}

// end sends the last spans, also when ctx has ended.
func (t *traces) end(ctx context.Context) {
	if t == nil || t.provider == nil {
		return
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlush)
	defer cancel()
	if err := t.provider.Shutdown(flush); err != nil {
		t.log.Warn("the last traces could not be exported in time", "error", err)
	}
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol := cmp.Or(os.Getenv(envTracesProtocol), os.Getenv(envProtocol))
	if protocol == "grpc" {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: retryLeast, MaxInterval: retryMost, MaxElapsedTime: retryFor,
		}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: retryLeast, MaxInterval: retryMost, MaxElapsedTime: retryFor,
	}))
}

// calmExporter logs the first failure of a row and its end, not each.
type calmExporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

func (e *calmExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.failing.Swap(true):
		e.log.Warn("traces cannot be exported and are dropped; delivery goes on", "error", err)
	case err == nil && e.failing.Swap(false):
		e.log.Info("traces are exported again")
	}
	return nil
}

// otelErrors logs the SDK's own errors: the first as a warning, further ones at level debug.
func otelErrors(log *slog.Logger) otel.ErrorHandler {
	var reported atomic.Bool
	return otel.ErrorHandlerFunc(func(err error) {
		level := slog.LevelWarn
		if reported.Swap(true) {
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "OpenTelemetry reported an error", "error", err)
	})
}
