package tracing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
)

// Scope is the instrumentation scope of the spans.
const Scope = "github.com/postrider/postrider"

// The attributes of the spans: those of OpenTelemetry's conventions for messaging, and our own.
const (
	keySystem        = attribute.Key("messaging.system")
	keyOperation     = attribute.Key("messaging.operation.name")
	keyOperationType = attribute.Key("messaging.operation.type")
	keyTemplate      = attribute.Key("messaging.destination.template")
	keyDestination   = attribute.Key("messaging.destination.name")
	keyPartition     = attribute.Key("messaging.destination.partition.id")
	keyMessageID     = attribute.Key("messaging.message.id")
	keyBatch         = attribute.Key("messaging.batch.message_count")
	keyErrorType     = attribute.Key("error.type")
	keyStream        = attribute.Key("postrider.stream")
	keyEpoch         = attribute.Key("postrider.epoch")
	keyPublished     = attribute.Key("postrider.published")
	keyPartitions    = attribute.Key("postrider.partitions")
	keyMessages      = attribute.Key("postrider.messages")
)

// Config gives spans their provider and names.
type Config struct {
	// Provider makes the spans.
	Provider trace.TracerProvider
	// Version is the program's, for the scope.
	Version string
	// Stream is the JetStream stream that is published to.
	Stream string
	// Template is the template of the subjects, which names the destination.
	Template string
	// Subject returns the subject of a message, for spans of a single one; nil: it is left out.
	Subject func(delivery.Message) string
}

// Observer makes spans of the steps of a relay and of a coordinator. It implements loop.Observer.
type Observer struct {
	tracer  trace.Tracer
	subject func(delivery.Message) string
	name    string
	sending []attribute.KeyValue
}

// New returns an observer.
func New(cfg Config) *Observer {
	return &Observer{
		tracer:  cfg.Provider.Tracer(Scope, trace.WithInstrumentationVersion(cfg.Version)),
		subject: cfg.Subject,
		name:    "send " + cfg.Template,
		sending: []attribute.KeyValue{
			keySystem.String("nats"), keyOperation.String("send"), keyOperationType.String("send"),
			keyTemplate.String(cfg.Template), keyStream.String(cfg.Stream),
		},
	}
}

// Published implements loop.Observer: one span for the batch, with a link to the stored trace context of each message that was tried.
func (o *Observer) Published(began time.Time, b delivery.Batch, outcomes []delivery.Outcome) {
	if !slices.ContainsFunc(outcomes, tried) {
		return // a handover came first
	}
	_, span := o.tracer.Start(context.Background(), o.name, trace.WithNewRoot(), trace.WithTimestamp(began),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(o.sending...))
	defer span.End()
	if !span.IsRecording() {
		return
	}
	count, published, failed := 0, 0, error(nil)
	var last delivery.Message
	for i, out := range outcomes {
		if !tried(out) {
			continue
		}
		if out.Kind == delivery.Published {
			published++
		}
		failed = cmp.Or(failed, out.Err)
		count++
		last = b.Messages[i]
		if c, ok := stored(last.Event); ok {
			span.AddLink(trace.Link{SpanContext: c, Attributes: []attribute.KeyValue{keyMessageID.String(last.Event.ID.String())}})
		}
	}
	span.SetAttributes(keyPartition.String(strconv.Itoa(int(b.Lease.Partition))), keyEpoch.Int64(b.Lease.Epoch), keyPublished.Int(published))
	if count == 1 {
		span.SetAttributes(keyMessageID.String(last.Event.ID.String()))
		if o.subject != nil {
			span.SetAttributes(keyDestination.String(o.subject(last)))
		}
	} else {
		span.SetAttributes(keyBatch.Int(count))
	}
	fail(span, failed)
}

// tried reports whether a message was sent, or refused; the others were left for the next batch, or wait behind another.
func tried(o delivery.Outcome) bool { return o.Kind == delivery.Published || o.Err != nil }

// Claimed implements loop.Observer.
func (o *Observer) Claimed(began time.Time, partitions, messages int, err error) {
	o.step("claim", began, err, keyPartitions.Int(partitions), keyMessages.Int(messages))
}

// Marked implements loop.Observer.
func (o *Observer) Marked(began time.Time, results []delivery.Result, err error) {
	messages := 0
	for _, r := range results {
		messages += len(r.Outcomes)
	}
	o.step("mark", began, err, keyPartitions.Int(len(results)), keyMessages.Int(messages))
}

// Taken implements loop.Observer.
func (o *Observer) Taken(began time.Time, l *lease.Lease, err error) {
	o.step("take", began, err, keyPartition.String(strconv.Itoa(int(l.Partition))), keyEpoch.Int64(l.Epoch))
}

// Coordinated makes a span of a coordinator's step, which gives it its name.
func (o *Observer) Coordinated(step string, began time.Time, partitions int, err error) {
	o.step(step, began, err, keyPartitions.Int(partitions))
}

func (o *Observer) step(name string, began time.Time, err error, attributes ...attribute.KeyValue) {
	_, span := o.tracer.Start(context.Background(), name, trace.WithNewRoot(), trace.WithTimestamp(began),
		trace.WithAttributes(attributes...))
	fail(span, err)
	span.End()
}

// fail gives a span its error: a class, never the text, which may quote anything.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	class := classOf(err)
	span.SetAttributes(keyErrorType.String(class))
	span.SetStatus(codes.Error, class)
}

func classOf(err error) string {
	for _, c := range []struct {
		err  error
		name string
	}{
		{delivery.ErrFenced, "fenced"},
		{delivery.ErrConfiguration, "configuration"},
		{delivery.ErrUnknown, "unknown_acknowledgement"},
		{delivery.ErrOutage, "broker_unavailable"},
		{delivery.ErrPayloadTooLarge, "payload_too_large"},
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "_OTHER"
}
