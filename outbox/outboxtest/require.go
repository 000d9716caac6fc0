package outboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/outbox"
)

// Require ends the test unless exactly one of the events is like want, and returns it. Fields of want that are empty are not compared;
// neither are headers that it does not name. Payloads that are JSON are equal when they mean the same. ExactVersion(n) means that the event
// has version n+1.
func (e Events) Require(t testing.TB, want outbox.Event) Stored {
	t.Helper()
	found := e.like(want)
	if len(found) != 1 {
		t.Fatalf("outboxtest: %d of %d events are like %s; want one%s", len(found), len(e), describe(want), e.list(want))
	}
	return found[0]
}

// RequireNone ends the test if an event is like that one, in the sense of Require. Every event is like an empty one.
func (e Events) RequireNone(t testing.TB, like outbox.Event) {
	t.Helper()
	if found := e.like(like); len(found) > 0 {
		t.Fatalf("outboxtest: %d of %d events are like %s; want none%s", len(found), len(e), describe(like), e.list(like))
	}
}

func (e Events) like(want outbox.Event) (found Events) {
	for _, one := range e {
		if len(differences(one, want)) == 0 {
			found = append(found, one)
		}
	}
	return found
}

// list returns every event with its differences from want, a line each.
func (e Events) list(want outbox.Event) string {
	var text strings.Builder
	for i, one := range e {
		fmt.Fprintf(&text, "\n%d. version %d of %s", i+1, one.StreamVersion, describe(one.Event))
		for _, d := range differences(one, want) {
			fmt.Fprintf(&text, "\n     %s", d)
		}
	}
	return text.String()
}

// differences returns the fields of want that the event does not have.
func differences(got Stored, want outbox.Event) (all []string) {
	differ := func(field, is, wanted any) { all = append(all, fmt.Sprintf("%s is %v, want %v", field, is, wanted)) }
	for _, f := range fields(got.Event, want) {
		if f.want != "" && f.is != f.want {
			differ(f.name, quote(f.is), quote(f.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Metadata.Headers)) {
		if value, there := got.Metadata.Headers[name]; !there || value != want.Metadata.Headers[name] {
			differ("Metadata.Headers["+name+"]", quote(value), quote(want.Metadata.Headers[name]))
		}
	}
	if want.ID != uuid.Nil && got.ID != want.ID {
		differ("ID", got.ID, want.ID)
	}
	if want.Payload != nil && !samePayload(got.Payload, want.Payload) {
		differ("Payload", quote(string(got.Payload)), quote(string(want.Payload)))
	}
	if n, exact := want.ExpectedVersion.Exact(); exact && got.StreamVersion != n+1 {
		differ("StreamVersion", got.StreamVersion, n+1)
	}
	if !want.OccurredAt.IsZero() && !sameTime(got.OccurredAt, want.OccurredAt) {
		differ("OccurredAt", got.OccurredAt, want.OccurredAt)
	}
	if !want.AvailableAt.IsZero() && !sameTime(got.AvailableAt, want.AvailableAt) {
		differ("AvailableAt", got.AvailableAt, want.AvailableAt)
	}
	if want.AuditOnly && !got.AuditOnly {
		differ("AuditOnly", false, true)
	}
	return all
}

type field struct{ name, is, want string }

// fields returns the fields that are texts.
func fields(is, want outbox.Event) []field {
	return []field{
		{"StreamID", is.StreamID, want.StreamID},
		{"Type", is.Type, want.Type},
		{"Topic", is.Topic, want.Topic},
		{"TenantID", is.TenantID, want.TenantID},
		{"DedupeKey", is.DedupeKey, want.DedupeKey},
		{"PartitionKey", is.PartitionKey, want.PartitionKey},
		{"Metadata.TraceParent", is.Metadata.TraceParent, want.Metadata.TraceParent},
		{"Metadata.TraceState", is.Metadata.TraceState, want.Metadata.TraceState},
		{"Metadata.CorrelationID", is.Metadata.CorrelationID, want.Metadata.CorrelationID},
		{"Metadata.CausationID", is.Metadata.CausationID, want.Metadata.CausationID},
	}
}

// sameTime compares as precisely as PostgreSQL stores.
func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

func samePayload(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, isJSON := decoded(a)
	second, alsoJSON := decoded(b)
	return isJSON && alsoJSON && reflect.DeepEqual(first, second)
}

// decoded keeps numbers as they are written: large ones would be rounded.
func decoded(text []byte) (value any, isJSON bool) {
	if !json.Valid(text) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return value, err == nil
}

// describe names the fields that are set.
func describe(e outbox.Event) string {
	var parts []string
	for _, f := range fields(e, e) {
		if f.is != "" {
			parts = append(parts, f.name+": "+quote(f.is))
		}
	}
	if e.Payload != nil {
		parts = append(parts, "Payload: "+quote(string(e.Payload)))
	}
	if n, exact := e.ExpectedVersion.Exact(); exact {
		parts = append(parts, fmt.Sprintf("ExpectedVersion: %d", n))
	}
	if e.AuditOnly {
		parts = append(parts, "AuditOnly: true")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// mostShown bounds a shown text, in bytes.
const mostShown = 300

// quote shows a text: JSON and the like as it is, the rest in quotes.
func quote(text string) string {
	end := ""
	if len(text) > mostShown {
		end = fmt.Sprintf("… (%d bytes)", len(text))
		text = text[:mostShown]
		for !utf8.ValidString(text) && len(text) > mostShown-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	if strings.HasPrefix(text, "{") && utf8.ValidString(text) {
		return text + end
	}
	return fmt.Sprintf("%q", text) + end
}
