package ui_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/ui"
)

// begin opens a connection and sends the beginning of a request.
func begin(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// raw sends bytes that no client library would, and reads the answer.
func raw(t *testing.T, address, text string) (*http.Response, string) {
	t.Helper()
	conn := begin(t, address, text)
	defer conn.Close()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return response, string(body)
}

func addressOf(server *httptest.Server) string { return server.Listener.Addr().String() }

// untouched is a monitor that anybody on the machine may use, and what tells
// that nothing was done.
func untouched(t *testing.T, options ui.Options) (*httptest.Server, func()) {
	t.Helper()
	o := newOutbox(t, 4)
	o.kill(t, "e", o.append(t, "a"))
	return o.serve(t, options), func() {
		t.Helper()
		o.wantAudits(t)
		if s := o.state(t, 1); s != "dead" {
			t.Errorf("the message is %s", s)
		}
	}
}

// A page of another site can send what a form can, with the browser's
// credentials, and can ask for leave to send more.
func TestAnotherSiteCannotAct(t *testing.T) {
	t.Parallel()
	server, unchanged := untouched(t, ui.Options{TrustedOrigins: []string{"https://ops.example.org"}})
	const body = `{"all": true, "reason": "r"}`
	for name, edit := range map[string][]func(*http.Request){
		"cross-site":                   {header("Sec-Fetch-Site", "cross-site")},
		"same-site":                    {header("Sec-Fetch-Site", "same-site")},
		"foreign origin":               {header("Origin", "https://evil.example.org")},
		"no origin":                    {header("Origin", "null")},
		"origin of another port":       {header("Origin", "http://"+"127.0.0.1:1")},
		"origin that begins like ours": {header("Origin", "https://ops.example.org.evil.org")},
		"trusted origin over http":     {header("Origin", "http://ops.example.org")},
	} {
		for path := range posts {
			got := api(t, server, http.MethodPost, path, body, edit...)
			if got.StatusCode != http.StatusForbidden || !strings.Contains(got.text, "cross_origin") {
				t.Errorf("%s: %s answers %d: %s", name, path, got.StatusCode, got.text)
			}
		}
	}
	for path := range posts {
		// What a form sends, in a browser too old for Sec-Fetch-Site and Origin.
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
			wantStatus(t, api(t, server, http.MethodPost, path, body, header("Content-Type", kind)), http.StatusUnsupportedMediaType)
		}
		preflight := call(t, server, http.MethodOptions, "/api/v1"+path, header("Origin", "https://evil.example.org"),
			header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "content-type"))
		for name := range preflight.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the preflight is answered with %s", path, name)
			}
		}
	}
	unchanged()
	trusted := header("Origin", "https://ops.example.org")
	wantStatus(t, api(t, server, http.MethodPost, "/messages/skip", body, trusted, header("Sec-Fetch-Site", "cross-site")), http.StatusOK)
}

// A foreign name that points to this machine is turned away everywhere but at
// the health checks, which tell nothing.
func TestForeignNamesAreTurnedAway(t *testing.T) {
	t.Parallel()
	server, unchanged := untouched(t, ui.Options{})
	for _, name := range []string{"evil.example.org", "localhost.evil.org", "127.0.0.1.evil.org:80", "0.0.0.0", "[::2]", "", "localhost:80:80", "localhost/@evil"} {
		for path, body := range posts {
			head := fmt.Sprintf("POST /api/v1%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				path, name, len(body), body)
			if response, text := raw(t, addressOf(server), head); response.StatusCode != http.StatusMisdirectedRequest && response.StatusCode != http.StatusBadRequest {
				t.Errorf("Host %q: POST %s answers %d: %s", name, path, response.StatusCode, text)
			}
		}
		for _, path := range append([]string{"/", "/metrics", "/static/monitor.js", "/api/v1/events"}, "/api/v1/summary", "/api/v1/openapi.yaml") {
			head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-Host: localhost\r\nConnection: close\r\n\r\n", path, name)
			if response, text := raw(t, addressOf(server), head); response.StatusCode != http.StatusMisdirectedRequest && response.StatusCode != http.StatusBadRequest {
				t.Errorf("Host %q: GET %s answers %d: %s", name, path, response.StatusCode, text)
			}
		}
	}
	unchanged()
}

// Nothing that a request brings ends up as a header of the answer or as a line
// of the log, and no path leads out of what is served.
func TestHeadersAndPathsAreNotInjected(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{BasePath: "/ops"})
	const evil = "%0d%0aSet-Cookie:%20evil=1%0d%0a%0d%0alevel=ERROR%20msg=forged"
	for _, target := range []string{
		"/" + evil, "/ops" + evil, "/ops/" + evil, "/static/" + evil, "/api/v1/messages/" + evil, "/api/v1/messages/" + evil + "/payload",
		"/api/v1/workers/" + evil + "/drain", "/api/v1/partitions/" + evil, "/api/v1/messages?stream=" + evil, "/api/v1/messages?" + evil + "=1",
		"/api/v1/messages?state=" + evil, "/?partitions=" + evil,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			response, text := raw(t, addressOf(server), method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if len(response.Header.Values("Set-Cookie")) > 0 {
				t.Errorf("%s %s sets a cookie: %v", method, target, response.Header)
			}
			if response.StatusCode >= http.StatusInternalServerError {
				t.Errorf("%s %s answers %d: %s", method, target, response.StatusCode, text)
			}
		}
	}
	for _, line := range strings.Split(o.log.String(), "\n") {
		if strings.HasPrefix(line, "level=ERROR") {
			t.Errorf("a line of the log was forged: %s", line)
		}
	}
	for _, bad := range []string{
		"X-Odd: a\x01b", "X-Odd: a\x00b", "X Odd: a", "X-Odd : a", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6",
		"Host: evil.example.org", ": a",
	} {
		response, text := raw(t, addressOf(server), "POST /api/v1/partitions/pause HTTP/1.1\r\nHost: localhost\r\n"+bad+"\r\nConnection: close\r\n\r\n")
		if response.StatusCode < 400 || response.StatusCode >= 500 {
			t.Errorf("%q: status %d: %s", bad, response.StatusCode, text)
		}
	}
	for _, target := range []string{
		"/static/../handler.go", "/static/..%2fhandler.go", "/static/%2e%2e/handler.go", "/static/..%5chandler.go", "/static/....//handler.go",
		"/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/%2fetc%2fpasswd", "/static//etc/passwd", "/static/", "/static",
		"/ops/../../etc/passwd", "/api/v1/../../../etc/passwd", "//etc/passwd", "/api/v1/messages/../summary", "/./api/v1/summary", "/static/monitor.js/..",
		"/static/monitor.js%00.txt", "http://evil.example.org/static/../../etc/passwd", "*",
	} {
		response, text := raw(t, addressOf(server), "GET "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if response.StatusCode < 400 || response.StatusCode >= 500 || strings.Contains(text, "root:") || strings.Contains(text, "package ui") {
			t.Errorf("GET %s answers %d: %.200s", target, response.StatusCode, text)
		}
		if to := response.Header.Get("Location"); to != "" {
			t.Errorf("GET %s leads to %s", target, to)
		}
	}
	o.wantAudits(t)
}

// slowServer has timeouts that a test can wait for.
func slowServer(t *testing.T) string {
	t.Helper()
	o := newOutbox(t, 4)
	server, err := ui.NewServer(ui.ServerConfig{
		Addr: "127.0.0.1:0", ReadHeaderTimeout: 300 * time.Millisecond, ReadTimeout: 600 * time.Millisecond, MaxHeaderBytes: 1024,
		Options: ui.Options{Source: o.source, Operator: o.operator(t, o.pool)},
	})
	if err != nil {
		t.Fatal(err)
	}
	address, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address.String()
}

// Whoever sends slowly, or too much, holds nothing up.
func TestSlowAndLargeRequestsEnd(t *testing.T) {
	t.Parallel()
	address := slowServer(t)
	const head = "POST /api/v1/partitions/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	response, text := raw(t, address, head+"Content-Length: 100\r\n\r\n{\"all\": ")
	if response.StatusCode != http.StatusRequestTimeout || !strings.Contains(text, "slow_body") {
		t.Errorf("a body that does not end: %d, %s", response.StatusCode, text)
	}
	response, text = raw(t, address, head+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"all\r\n")
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("chunks that do not end: %d, %s", response.StatusCode, text)
	}
	if response, _ := raw(t, address, head+"X-Large: "+strings.Repeat("x", 16<<10)+"\r\n\r\n"); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %d", response.StatusCode)
	}
	conn := begin(t, address, head)
	defer conn.Close()
	if rest, err := io.ReadAll(conn); err != nil {
		t.Errorf("a header that does not end holds the connection: %v, %s", err, rest)
	}
	// A stream is no slow request.
	_, lines := stream(t, "http://"+address)
	for range 2 {
		nextSnapshot(t, lines)
	}
}

// Requests of several people at once, over shared connections, are done in the
// name of each, and none sees what only another may.
func TestIdentitiesAreKeptApart(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 8)
	o.append(t, "a", `metadata => '{"traceparent": "00-pl4nted"}'`)
	var auth ui.Auth
	names := []string{"ann", "bob", "cyd", "dee"}
	for _, name := range names {
		auth.Users = append(auth.Users, ui.User{Name: name, Password: "of " + name, Access: ui.AccessOperate})
	}
	auth.Users = append(auth.Users, ui.User{Name: "reader", Password: "r", Access: ui.AccessReadOnly})
	server := o.serve(t, ui.Options{Auth: auth, ShowPayload: true})
	var running sync.WaitGroup
	for n, name := range names {
		as := func(r *http.Request) { r.SetBasicAuth(name, "of "+name) }
		for _, verb := range []string{"pause", "resume", "pause"} {
			running.Go(func() {
				body := fmt.Sprintf(`{"partitions": [%d], "reason": %q}`, n, name)
				wantStatus(t, api(t, server, http.MethodPost, "/partitions/"+verb, body, as), http.StatusOK)
			})
		}
		running.Go(func() { wantContains(t, api(t, server, http.MethodGet, "/messages/1", "", as), "00-pl4nted") })
		running.Go(func() {
			reader := func(r *http.Request) { r.SetBasicAuth("reader", "r") }
			if got := api(t, server, http.MethodGet, "/messages/1", "", reader); strings.Contains(got.text, "pl4nted") {
				t.Errorf("the reader sees %s", got.text)
			}
			wantProblem(t, api(t, server, http.MethodPost, "/partitions/pause", `{"all": true}`, reader), http.StatusForbidden, "read_only", "")
		})
	}
	running.Wait()
	for _, e := range o.audits(t) {
		if e.Actor != e.Reason {
			t.Errorf("what %s wanted was done in the name of %s", e.Reason, e.Actor)
		}
	}
	if n := one[int](t, o, `SELECT count(DISTINCT actor) FROM outbox_audit`); n != len(names) {
		t.Errorf("the audit names %d people, want %d", n, len(names))
	}
}
