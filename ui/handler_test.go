package ui_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/ui"
)

func TestPageShowsEverything(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{Source: always(cluster(64)), Environment: "staging", Version: "9.8.7"})

	page := call(t, server, http.MethodGet, "/")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "staging", "Postrider 9.8.7", `id="tile-pending"`, `id="p-63"`, "relay-2.example.net",
		"draining", "stale", "no owner", "paused", "1,204 blocked", "2 dead", `class="minute"`)
	if n := strings.Count(page.text, `class="minute"`); n != 60 {
		t.Errorf("the chart has %d bars, want 60", n)
	}
	for _, inline := range []string{"style=", "<style", "onclick=", "javascript:", `href="/`, `src="/`} {
		if strings.Contains(page.text, inline) {
			t.Errorf("the page holds %q", inline)
		}
	}

	table := call(t, server, http.MethodGet, "/?partitions=table")
	wantStatus(t, table, http.StatusOK)
	wantContains(t, table, "Delivered up to", "since <time")
}

func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	snapshot := cluster(4)
	snapshot.Workers[0].Hostname, snapshot.Workers[0].Version = hostile, hostile
	server := serve(t, ui.Options{Source: always(snapshot), Environment: hostile, Version: hostile})

	for _, path := range []string{"/", "/?partitions=table", "/?partitions=" + "%22%3E%3Cscript%3Ealert(1)"} {
		page := call(t, server, http.MethodGet, path)
		wantStatus(t, page, http.StatusOK)
		if strings.Contains(page.text, "<script>alert") || strings.Contains(page.text, "<img src=x") {
			t.Errorf("%s: hostile text reached the page unescaped", path)
		}
		wantContains(t, page, "&lt;script&gt;alert(1)")
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	cache, err := ui.NewCache(always(cluster(16)), ui.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(ui.NewCollector(cache))
	server := serve(t, ui.Options{Source: cache, Gatherer: registry})

	for _, test := range []struct {
		method, path, kind string
		status             int
	}{
		{"GET", "/", "text/html; charset=utf-8", 200},
		{"HEAD", "/", "text/html; charset=utf-8", 200},
		{"GET", "/healthz", "application/json", 200},
		{"HEAD", "/healthz", "application/json", 200},
		{"GET", "/readyz", "application/json", 200},
		{"GET", "/metrics", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", 200},
		{"GET", "/static/monitor.css", "text/css; charset=utf-8", 200},
		{"GET", "/static/monitor.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/static/none.js", "text/html; charset=utf-8", 404},
		{"GET", "/api/v1/summary", "application/json", 200},
		{"HEAD", "/api/v1/summary", "application/json", 200},
		{"GET", "/api/v1/workers", "application/json", 200},
		{"GET", "/api/v1/partitions", "application/json", 200},
		{"GET", "/api/v1/throughput", "application/json", 200},
		{"GET", "/api/v1/none", "application/json", 404},
		{"GET", "/api", "application/json", 404},
		{"POST", "/api/v1/summary", "application/json", 405},
		{"POST", "/api/v1/none", "application/json", 404},
		{"DELETE", "/", "text/html; charset=utf-8", 405},
		{"GET", "/none", "text/html; charset=utf-8", 404},
		{"GET", "//api/v1/summary", "text/html; charset=utf-8", 404},
		{"GET", "//", "text/html; charset=utf-8", 404},
		{"GET", "/static/%2e%2e/doc.go", "text/html; charset=utf-8", 404},
	} {
		got := call(t, server, test.method, test.path)
		wantStatus(t, got, test.status)
		if kind := got.Header.Get("Content-Type"); kind != test.kind {
			t.Errorf("%s %s: content type %q, want %q", test.method, test.path, kind, test.kind)
		}
		if test.method == http.MethodHead && got.text != "" {
			t.Errorf("HEAD %s has a body", test.path)
		}
		if test.status == http.StatusMethodNotAllowed && got.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", test.method, test.path, got.Header.Get("Allow"))
		}
	}
}

func TestSecurityHeadersAreOnEveryAnswer(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{})
	for _, path := range []string{"/", "/healthz", "/api/v1/summary", "/api/v1/none", "/none", "/static/monitor.css"} {
		got := call(t, server, http.MethodGet, path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
		} {
			if value := got.Header.Get(name); value != want {
				t.Errorf("%s: %s is %q, want %q", path, name, value, want)
			}
		}
	}
	if got := call(t, server, http.MethodGet, "/api/v1/summary").Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control of the API is %q", got)
	}
}

func TestStaticFilesAreRevalidated(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{})
	first := call(t, server, http.MethodGet, "/static/monitor.css")
	tag := first.Header.Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	wantStatus(t, call(t, server, http.MethodGet, "/static/monitor.css", header("If-None-Match", tag)), http.StatusNotModified)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{Ready: func(context.Context) error {
		return errors.New("dial postgres://app:s3cret@db:5432/x: refused\nsecond line")
	}})
	got := call(t, server, http.MethodGet, "/readyz")
	wantStatus(t, got, http.StatusServiceUnavailable)
	body := decode[map[string]string](t, got)
	if want := "dial postgres://***@db:5432/x: refused"; body["reason"] != want || body["status"] != "unavailable" {
		t.Errorf("body %v, want the reason %q", body, want)
	}
	wantStatus(t, call(t, server, http.MethodGet, "/healthz"), http.StatusOK)
}

func TestBasePath(t *testing.T) {
	t.Parallel()
	const base = "/ops/outbox"
	kept := serve(t, ui.Options{BasePath: base})
	handler, err := ui.NewHandler(ui.Options{Source: always(cluster(4))})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(base+"/", http.StripPrefix(base, handler))
	mounted := serveHandler(t, mux)

	for name, server := range map[string]string{"a proxy that keeps the path": kept.URL, "a mount that strips it": mounted.URL} {
		client := kept.Client()
		for path, want := range map[string]int{
			base + "/":                  http.StatusOK,
			base + "/api/v1/summary":    http.StatusOK,
			base + "/static/monitor.js": http.StatusOK,
			base + "/healthz":           http.StatusOK,
			base + "/none/deeper":       http.StatusNotFound,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s: %s answers %d, want %d", name, path, response.StatusCode, want)
			}
		}
	}
	// The same handler behind a proxy that strips the path.
	wantStatus(t, call(t, kept, http.MethodGet, "/api/v1/summary"), http.StatusOK)

	redirect := call(t, kept, http.MethodGet, base)
	wantStatus(t, redirect, http.StatusPermanentRedirect)
	if to := redirect.Header.Get("Location"); to != "outbox/" {
		t.Errorf("redirected to %q, want the relative outbox/", to)
	}
	wantContains(t, call(t, kept, http.MethodGet, base+"/none/deeper"), `href="../static/monitor.css"`)
	wantContains(t, call(t, kept, http.MethodGet, base+"/"), `href="./static/monitor.css"`)
	wantStatus(t, call(t, kept, http.MethodGet, "/ops/outboxes/"), http.StatusNotFound)
}
