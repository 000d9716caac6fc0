package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/examples/searchsync/meilitest"
	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// once has a fault happen to the first request that fits, and nothing to the others.
func once(fault meilitest.Fault, fits func(*http.Request) bool) func(*http.Request) meilitest.Fault {
	done := false
	return func(r *http.Request) meilitest.Fault {
		if done || !fits(r) {
			return meilitest.Fault{}
		}
		done = true
		return fault
	}
}

func writes(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/documents")
}
func asks(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/tasks/") }

// What can go wrong with one write: whether it is said, and whether it can be tried again.
func TestMeiliFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault meilitest.Fault
		fits  func(*http.Request) bool
		fails bool
	}{
		{"rate limit", meilitest.Fault{Status: 429, RetryAfter: 1}, writes, true},
		{"503", meilitest.Fault{Status: 503}, writes, true},
		{"500", meilitest.Fault{Status: 500}, writes, true},
		{"connection broken before", meilitest.Fault{Break: true}, writes, true},
		{"connection broken after", meilitest.Fault{BreakAfter: true}, writes, true},
		{"task failed", meilitest.Fault{FailTask: true}, writes, true},
		{"silence", meilitest.Fault{Silent: true}, writes, true},
		{"slow task", meilitest.Fault{SlowTask: 50 * time.Millisecond}, writes, false},
		{"task cannot be asked for once", meilitest.Fault{Status: 500}, asks, false},
		{"task question broken", meilitest.Fault{Break: true}, asks, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in, fixture := meiliTest(t)
			in.(*meiliIndex).server.timeout = time.Second //nolint:errcheck // it is one
			fixture.SetFault(once(test.fault, test.fits))
			d := document{ID: "x", Version: 1, Title: "found"}
			err := in.put(t.Context(), d)
			if failed := err != nil; failed != test.fails || errors.Is(err, errRefused) {
				t.Errorf("put gives %v", err)
			}
			began := time.Now()
			if err := in.put(t.Context(), d); err != nil {
				t.Errorf("the second attempt gives %v", err)
			}
			if rest := time.Since(began); test.fault.RetryAfter > 0 && rest < 500*time.Millisecond {
				t.Errorf("asked again after %s, the server wanted 1 s", rest)
			}
			wantFound(t, in, "found", "x")
		})
	}
}

// A wrong key is named at once; a document that cannot be stored is refused for good.
func TestMeiliRefusals(t *testing.T) {
	t.Parallel()
	fixture := meilitest.Start(t)
	for key, code := range map[string]string{"": "missing_authorization_header", "wrong": "invalid_api_key"} {
		server, err := newMeiliServer(fixture.URL, key)
		if err != nil {
			t.Fatal(err)
		}
		defer server.client.CloseIdleConnections()
		if _, err := openMeili(t.Context(), server, "documents"); !isCode(err, code) {
			t.Errorf("key %q gives %v", key, err)
		}
	}
	if _, err := newMeiliServer("localhost:7700", ""); err == nil {
		t.Error("an address without a scheme was taken")
	}
	server, err := newMeiliServer(fixture.URL, fixture.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer server.client.CloseIdleConnections()
	err = server.run(t.Context(), http.MethodPost, "/indexes/documents/documents?primaryKey=key", []map[string]string{{"key": "not / allowed"}})
	if !errors.Is(err, errRefused) {
		t.Errorf("an impossible key gives %v", err)
	}
	// A handler makes it final, so that the inbox does not try for ever.
	s := newSyncer(t, refusingIndex{})
	s.save(t, document{ID: "x"})
	err = pgx.BeginFunc(t.Context(), s.store.pool, func(tx pgx.Tx) error {
		_, err := s.handle(t.Context(), tx, message.Message{Stream: streamPrefix + "x"})
		return err
	})
	if !inbox.IsFinal(err) {
		t.Errorf("the handler gives %v", err)
	}
}
