package message

import (
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The headers of a message. Trace context is that of W3C.
const (
	HeaderEventID       = "Outbox-Event-Id"
	HeaderSequence      = "Outbox-Sequence"
	HeaderPartition     = "Outbox-Partition"
	HeaderStream        = "Outbox-Stream"
	HeaderStreamVersion = "Outbox-Stream-Version"
	HeaderType          = "Outbox-Type"
	HeaderGeneration    = "Outbox-Generation"
	HeaderEpoch         = "Outbox-Epoch"
	HeaderRecordedAt    = "Outbox-Recorded-At"
	HeaderCorrelationID = "Outbox-Correlation-Id"
	HeaderCausationID   = "Outbox-Causation-Id"
	HeaderTraceParent   = "traceparent"
	HeaderTraceState    = "tracestate"
)

// EncodeHeader makes a value that reads back as it was written. Bytes outside UTF-8, control characters and spaces at the ends become %XX:
// the wire format would change them or read a new header, or a reader's terminal obey them.
func EncodeHeader(value string) string {
	trimmed := textproto.TrimString(value)
	if len(trimmed) == len(value) && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl) {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRuneInString(value[i:])
		if unicode.IsControl(r) || r == utf8.RuneError && size == 1 || r == ' ' && (i == 0 || i == len(value)-1) {
			for _, c := range []byte(value[i : i+size]) {
				writePercent(&b, c)
			}
		} else {
			b.WriteString(value[i : i+size])
		}
		i += size
	}
	return b.String()
}
