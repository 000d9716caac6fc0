package wire_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

func TestSubjects(t *testing.T) {
	t.Parallel()
	m := newMessage(1, "order 7/é", "{}")
	m.Event.TenantID = ""
	for template, want := range map[string]string{
		"events.{topic}.{type}":         "events.shop.order%2Epaid",
		"e.{partition}.{stream}":        "e.3.order%207%2F%C3%A9",
		"e.{tenant}":                    "e._",
		"events.fixed":                  "events.fixed",
		"a-b_c.{type}.tail.{partition}": "a-b_c.order%2Epaid.tail.3",
	} {
		s, err := wire.ParseSubject(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := s.Of(m); got != want {
			t.Errorf("%s: %s, want %s", template, got, want)
		}
	}
}

func TestSubjectTemplatesAreRefused(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"", ".", "events..x", "events.*", "events.>", "events.{nothing}", "events.{type}x", "{topic}.x", "events. x", "events.{type", "$JS.API"} {
		if _, err := wire.ParseSubject(template); !errors.Is(err, wire.ErrConfig) || !strings.Contains(err.Error(), "--subject") {
			t.Errorf("%q: %v", template, err)
		}
	}
}

// Whatever the data, a subject has the template's tokens and no more, and
// different short data gives different subjects.
func TestDataCannotInjectTokens(t *testing.T) {
	t.Parallel()
	s, err := wire.ParseSubject("events.{topic}.{stream}")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMessage(1, string(rapid.SliceOf(rapid.Byte()).Draw(t, "stream")), "")
		m.Topic = rapid.String().Draw(t, "topic")
		subject := s.Of(m)
		tokens := strings.Split(subject, ".")
		if len(tokens) != 3 || tokens[0] != "events" {
			t.Fatalf("subject %q", subject)
		}
		for _, token := range tokens[1:] {
			if token == "" || len(token) > 255 || strings.ContainsAny(token, "*> \t\r\n\x00") {
				t.Fatalf("token %q", token)
			}
		}
		other := m
		other.Stream = string(rapid.SliceOf(rapid.Byte()).Draw(t, "other"))
		if other.Stream != m.Stream && other.Stream != "" && m.Stream != "" && s.Of(other) == subject &&
			other.Stream != "_" && m.Stream != "_" {
			t.Fatalf("%q and %q share %s", other.Stream, m.Stream, subject)
		}
	})
}
