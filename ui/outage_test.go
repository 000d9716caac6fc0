package ui_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/ui"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	source := &scripted{next: func(context.Context) (ui.Snapshot, error) {
		if down.Load() {
			return ui.Snapshot{}, errors.New("failed to connect to user=app host=db.internal password=hunter2")
		}
		return cluster(4), nil
	}}
	cache, err := ui.NewCache(source, ui.CacheConfig{Interval: 100 * time.Millisecond, StaleAfter: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, ui.Options{Source: cache})
	until := func(path string, met func(answer) bool) answer {
		deadline := time.Now().Add(20 * time.Second)
		for {
			if time.Now().After(deadline) {
				t.Fatalf("%s did not come to answer as it should", path)
			}
			if got := call(t, server, http.MethodGet, path); met(got) {
				return got
			}
			advance(t, 20*time.Millisecond)
		}
	}
	status := func(want int) func(answer) bool { return func(a answer) bool { return a.StatusCode == want } }

	// Before the first snapshot there is nothing to show, and nothing leaks.
	for _, path := range []string{"/", "/api/v1/summary"} {
		got := call(t, server, http.MethodGet, path)
		wantStatus(t, got, http.StatusServiceUnavailable)
		if strings.Contains(got.text, "db.internal") || strings.Contains(got.text, "hunter2") {
			t.Errorf("%s leaks the cause: %s", path, got.text)
		}
	}
	down.Store(false)
	until("/api/v1/summary", status(http.StatusOK))

	// Later the page goes on under a warning, while the API refuses old numbers.
	down.Store(true)
	got := until("/api/v1/summary", status(http.StatusServiceUnavailable))
	wantContains(t, got, "snapshot_unavailable")
	page := call(t, server, http.MethodGet, "/")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "These numbers are old", `id="p-3"`)
	// Nobody knows whether anything is stuck, so no page says that all is well.
	for _, path := range []string{"/", "/partitions/3"} {
		page := call(t, server, http.MethodGet, path)
		wantContains(t, page, "<strong>Unknown.</strong> The database did not answer")
		if strings.Contains(page.text, "Healthy") {
			t.Errorf("%s says that all is well, and its numbers are old", path)
		}
	}

	down.Store(false)
	got = until("/", func(a answer) bool { return a.StatusCode == 200 && !strings.Contains(a.text, "These numbers are old") })
	wantContains(t, got, "Healthy: nothing is holding events up.")
}
