package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestHealthcheckAsksTheMonitor(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"live"}`)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"unavailable","reason":"not connected to NATS"}`))
	})
	monitor := httptest.NewServer(mux)
	defer monitor.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(monitor.URL, "http://"), ":")
	for _, address := range []string{"127.0.0.1:" + port, "localhost:" + port, ":" + port, "0.0.0.0:" + port, "[::]:" + port} {
		if code, stdout, stderr := call(t, "healthcheck", "--http-addr="+address); code != exitOK || stdout != "live\n" {
			t.Errorf("%s: status %d, %q, %s", address, code, stdout, stderr)
		}
	}
	if code, stdout, _ := call(t, "healthcheck", "--json", "--http-addr=127.0.0.1:"+port); code != exitOK || !strings.Contains(stdout, `"healthy":true`) || !strings.Contains(stdout, `"status":"live"`) {
		t.Errorf("--json: status %d, %q", code, stdout)
	}
	if code, stdout, stderr := call(t, "healthcheck", "--json", "--ready", "--http-addr=127.0.0.1:"+port); code != exitFailed || stderr != "" || !strings.Contains(stdout, `"healthy":false`) || !strings.Contains(stdout, "not connected to NATS") {
		t.Errorf("--json: status %d, %q, %q", code, stdout, stderr)
	}
	complaint{
		[]string{"healthcheck", "--ready", "--http-addr=127.0.0.1:" + port}, exitFailed, []string{"/readyz", "503", "not connected to NATS"},
	}.check(t)
}

func TestHealthcheckFails(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(other.Close)
	for name, c := range map[string]complaint{
		"nobody":           {[]string{"healthcheck", "--http-addr=" + nobody}, exitFailed, []string{"healthcheck", nobody}},
		"somebody else":    {[]string{"healthcheck", "--http-addr=" + strings.TrimPrefix(other.URL, "http://")}, exitFailed, []string{"no monitor"}},
		"no monitor":       {[]string{"healthcheck", "--http-addr=off"}, exitRefused, []string{"--http-addr", "off"}},
		"any port":         {[]string{"healthcheck", "--http-addr=127.0.0.1:0"}, exitRefused, []string{"--http-addr", "port"}},
		"an address alone": {[]string{"healthcheck", "--http-addr=127.0.0.1"}, exitRefused, []string{"--http-addr", "port"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// The same variable that gives a worker its address gives it to the check.
func TestHealthcheckOfAWorker(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{})
	w := c.Start(t, 1, "--http-addr=127.0.0.1:0")[0]
	address := strings.TrimPrefix(w.Monitor(t), "http://")
	for _, flags := range [][]string{nil, {"--ready"}} {
		check := clustertest.Launch(t, "check", []string{"POSTRIDER_HTTP_ADDR=" + address}, append([]string{"healthcheck"}, flags...)...)
		if code := check.Exit(t); code != exitOK {
			t.Errorf("%v: status %d: %s", flags, code, check.Stderr())
		}
	}
}
