package tracing

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/delivery"
)

// Lengths by W3C Trace Context: version 00 is exactly that long, later ones may go on behind another dash.
const (
	parentLength = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	parentMost   = 512
	stateMost    = 1024
)

// stored returns the trace context that was stored with an event; false: there is none, or it is malformed.
func stored(e *delivery.Event) (trace.SpanContext, bool) {
	parent := e.TraceParent
	if len(parent) < parentLength || len(parent) > parentMost || !dashed(parent) {
		return trace.SpanContext{}, false
	}
	version, ok := octet(parent[:2])
	if !ok || version == 0xff || version == 0 && len(parent) > parentLength {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(parent[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	span, err := trace.SpanIDFromHex(parent[36:52])
	if err != nil {
		return trace.SpanContext{}, false
	}
	flags, ok := octet(parent[53:55])
	if !ok {
		return trace.SpanContext{}, false
	}
	c := trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true}
	if e.TraceState != "" && len(e.TraceState) <= stateMost {
		if state, err := trace.ParseTraceState(e.TraceState); err == nil {
			c.TraceState = state
		}
	}
	return trace.NewSpanContext(c), true
}

func dashed(parent string) bool {
	return parent[2] == '-' && parent[35] == '-' && parent[52] == '-' && (len(parent) == parentLength || parent[parentLength] == '-')
}

// octet reads two hexadecimal digits in lower case.
func octet(digits string) (byte, bool) {
	var value [1]byte
	_, err := hex.Decode(value[:], []byte(digits))
	return value[0], err == nil && strings.ToLower(digits) == digits
}
