package outbox

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/headername"
)

// The limits of the SQL functions, schema/migrations/00002_functions.sql.
const (
	maxText       = 1024
	maxHeaderName = 128
	maxHeaders    = 32 << 10
	mostHeaders   = 1000
)

const textRule = "must be 1 to 1024 bytes of UTF-8 without control characters and without spaces at its ends"

// validate checks one event with its topic and routing key filled in.
func (p *Producer) validate(index int, e *Event, key string) error {
	refuse := func(field, reason string) error {
		return &InvalidEventError{Index: index, Field: field, Reason: reason}
	}
	for _, f := range []struct {
		name, value string
		required    bool
	}{
		{"StreamID", e.StreamID, true},
		{"Type", e.Type, true},
		{"Topic", e.Topic, true},
		{"PartitionKey", key, true},
		{"TenantID", e.TenantID, false},
		{"DedupeKey", e.DedupeKey, false},
		{"Metadata.TraceParent", e.Metadata.TraceParent, false},
		{"Metadata.TraceState", e.Metadata.TraceState, false},
		{"Metadata.CorrelationID", e.Metadata.CorrelationID, false},
		{"Metadata.CausationID", e.Metadata.CausationID, false},
	} {
		if (f.required || f.value != "") && !plainText(f.value) {
			return refuse(f.name, textRule)
		}
	}
	if reason := headerProblem(e.Metadata.Headers); reason != "" {
		return refuse("Metadata.Headers", reason)
	}
	if n, exact := e.ExpectedVersion.Exact(); exact && (n < 0 || n == math.MaxInt64) {
		return refuse("ExpectedVersion", "must be 0 or more and leave room for the next version")
	}
	for name, at := range map[string]time.Time{"OccurredAt": e.OccurredAt, "AvailableAt": e.AvailableAt} {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			return refuse(name, "must be in the years 1 to 9999 (UTC)")
		}
	}
	if len(e.Payload) > p.cfg.MaxPayloadBytes {
		return fmt.Errorf("%w: event %d has %d bytes, the limit is %d", ErrPayloadTooLarge, index, len(e.Payload), p.cfg.MaxPayloadBytes)
	}
	return nil
}

func plainText(s string) bool {
	return s != "" && len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) &&
		strings.Trim(s, " ") == s
}

// headerProblem returns the rule that the headers break. Names and values come from the caller and may be secret, so it quotes names only,
// and only valid ones.
func headerProblem(headers map[string]string) string {
	size := 0
	known := make(map[string]bool, len(headers)) // in lower case
	for name, value := range headers {
		size += len(name) + len(value)
		lower := strings.ToLower(name)
		switch {
		case known[lower]:
			return fmt.Sprintf("must not have %q twice, in whatever case", lower)
		case name == "" || len(name) > maxHeaderName || strings.ContainsFunc(name, notToken):
			return "must have names of 1 to 128 token characters"
		case headername.Reserved(name) != "":
			return fmt.Sprintf("has %q, which %s", name, headername.Reserved(name))
		case !utf8.ValidString(value) || strings.ContainsFunc(value, notHeaderValue):
			return fmt.Sprintf("must not contain line breaks or control characters, as %q does", name)
		}
		known[lower] = true
	}
	if size > maxHeaders {
		return "must not exceed 32 KiB"
	}
	if len(headers) > mostHeaders {
		return "must not be more than 1000"
	}
	return ""
}

func notToken(r rune) bool {
	switch {
	case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func notHeaderValue(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// metadataJSON returns the stored form, nil for none. A field that is empty is left out.
func metadataJSON(m Metadata) ([]byte, error) {
	if m.TraceParent == "" && m.TraceState == "" && m.CorrelationID == "" && m.CausationID == "" && len(m.Headers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return text, nil
}
