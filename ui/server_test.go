package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/ui"
)

// stream opens the event stream and returns its lines' reader.
func stream(t *testing.T, url string) (*http.Response, *bufio.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	// A transport of its own: a stream left open must not be found by others.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response, bufio.NewReader(response.Body)
}

// nextSnapshot reads up to the next snapshot event.
func nextSnapshot(t *testing.T, lines *bufio.Reader) map[string]any {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var body map[string]any
			if err := json.Unmarshal([]byte(data), &body); err != nil {
				t.Fatal(err)
			}
			return body
		}
	}
}

func TestStreamsShareOneRead(t *testing.T) {
	t.Parallel()
	source := always(cluster(16))
	cache, err := ui.NewCache(source, ui.CacheConfig{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, ui.Options{Source: cache, MaxStreams: 3})
	began := time.Now()
	var readers []*bufio.Reader
	var responses []*http.Response
	for range 3 {
		response, lines := stream(t, server.URL)
		if kind, proxy := response.Header.Get("Content-Type"), response.Header.Get("X-Accel-Buffering"); kind != "text/event-stream" || proxy != "no" {
			t.Errorf("content type %q, X-Accel-Buffering %q", kind, proxy)
		}
		readers, responses = append(readers, lines), append(responses, response)
	}
	refused := call(t, server, http.MethodGet, "/api/v1/events")
	wantStatus(t, refused, http.StatusServiceUnavailable)
	wantContains(t, refused, "streams_unavailable")

	for range 4 {
		for _, lines := range readers {
			body := nextSnapshot(t, lines)
			if partitions, ok := body["partitions"].(map[string]any); !ok || partitions["total"] != 16.0 {
				t.Errorf("event %v", body)
			}
		}
	}
	// Reads begin half an interval apart at the least.
	if reads, most := source.reads.Load(), int64(time.Since(began)/(50*time.Millisecond))+1; reads > most {
		t.Errorf("%d reads for three streams, want at most %d", reads, most)
	}
	// A place that was left is free again.
	responses[0].Body.Close()
	for {
		response, lines := stream(t, server.URL)
		if response.StatusCode == http.StatusOK {
			nextSnapshot(t, lines)
			return
		}
	}
}

func TestServerStopsWithStreamsOpen(t *testing.T) {
	t.Parallel()
	server, err := ui.NewServer(ui.ServerConfig{Addr: "127.0.0.1:0", Options: ui.Options{Source: always(cluster(4)), BasePath: "/ops"}})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://" + addr.String() + "/ops/"; server.URL() != want {
		t.Errorf("URL %q, want %q", server.URL(), want)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	_, lines := stream(t, "http://"+addr.String())
	nextSnapshot(t, lines)

	began := time.Now()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the open stream held the shutdown up for %v", took)
	}
	if _, err := net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
		t.Error("the listener is still open")
	}
}

func TestServerRefusesPublicBindsWithoutAuthentication(t *testing.T) {
	t.Parallel()
	source := always(cluster(1))
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "10.1.2.3:0", "192.168.0.1:80"} {
		_, err := ui.NewServer(ui.ServerConfig{Addr: addr, Options: ui.Options{Source: source}})
		if !errors.Is(err, ui.ErrUnauthenticatedBind) || !strings.Contains(err.Error(), "--http-users-file (POSTRIDER_HTTP_USERS_FILE)") {
			t.Errorf("%s: error %v; want a refusal that names the setting", addr, err)
		}
	}
	for _, addr := range []string{"", "127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.9.1:0"} {
		if _, err := ui.NewServer(ui.ServerConfig{Addr: addr, Options: ui.Options{Source: source}}); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	auth := ui.Auth{Users: []ui.User{{Name: "ann", Password: "x", Access: ui.AccessOperate}}}
	server, err := ui.NewServer(ui.ServerConfig{Addr: ":0", Options: ui.Options{Source: source, Auth: auth}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := server.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestServerChecksWhatANameResolvedTo(t *testing.T) {
	t.Parallel()
	name := publicAddress(t)
	server, err := ui.NewServer(ui.ServerConfig{Addr: net.JoinHostPort(name, "0"), Options: ui.Options{Source: always(cluster(1))}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(t.Context()); !errors.Is(err, ui.ErrUnauthenticatedBind) {
		t.Errorf("listening on %s: %v", name, err)
	}
}

// publicAddress returns this machine's host name where it resolves to an
// address other than loopback, as it does in most containers.
func publicAddress(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Skip("this machine does not tell its name: ", err)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip4", name)
	if err != nil || len(addresses) == 0 || addresses[0].IsLoopback() {
		t.Skipf("the name %s resolves to %v (error %v), and the test needs an address other than loopback", name, addresses, err)
	}
	return name
}

func TestServerConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	options := ui.Options{Source: always(cluster(1))}
	for field, config := range map[string]ui.ServerConfig{
		"ServerConfig.Addr":           {Addr: "8080", Options: options},
		"ServerConfig.WriteTimeout":   {WriteTimeout: -1, Options: options},
		"ServerConfig.MaxHeaderBytes": {MaxHeaderBytes: -1, Options: options},
		"MaxConnections":              {MaxConnections: 8, MaxConnectionsFrom: 9, Options: options},
		"Options.Source":              {},
	} {
		if _, err := ui.NewServer(config); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v; want one that names %s", err, field)
		}
	}
}
