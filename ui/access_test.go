package ui_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

func serveHandler(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestHostAllowListOnLoopback(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{AllowedHosts: []string{"Outbox.Example.org"}})
	for name, want := range map[string]int{
		"localhost":                     200,
		"LOCALHOST:8080":                200,
		"127.0.0.1":                     200,
		"127.0.0.1:99":                  200,
		"[::1]":                         200,
		"[::1]:8080":                    200,
		"outbox.example.org":            200,
		"outbox.example.org:443":        200,
		"evil.example.org":              421,
		"127.0.0.1.evil.example.org":    421,
		"localhost.evil.example.org":    421,
		"127.0.0.2":                     421,
		"sub.outbox.example.org":        421,
		"outbox.example.org.evil.org:1": 421,
	} {
		wantStatus(t, call(t, server, http.MethodGet, "/api/v1/summary", host(name)), want)
		// Probes come by whatever address the orchestrator knows.
		wantStatus(t, call(t, server, http.MethodGet, "/healthz", host(name)), 200)
	}
}

func TestWithoutAuthenticationOnlyLoopbackIsServed(t *testing.T) {
	t.Parallel()
	handler, err := ui.NewHandler(ui.Options{Source: always(cluster(4))})
	if err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]any{
		"unknown":        nil,
		"of an Ethernet": &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 80},
		"of a socket":    &net.UnixAddr{Name: "/run/monitor.sock", Net: "unix"},
	} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, address)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/summary", nil))
		if recorder.Code != http.StatusForbidden || !strings.Contains(recorder.Body.String(), "--http-users-file") {
			t.Errorf("local address %s: status %d, body %s; want 403 naming --http-users-file", name, recorder.Code, recorder.Body)
		}
	}
	wantStatus(t, call(t, serveHandler(t, handler), http.MethodGet, "/api/v1/summary"), http.StatusOK)
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	server := serve(t, ui.Options{
		Auth: ui.Auth{
			Users: []ui.User{
				{Name: "ann", Password: "open:sesame", Access: ui.AccessOperate},
				{Name: "bob", Password: "looking", Access: ui.AccessReadOnly},
			},
			Tokens: []ui.Token{{Value: "t0ken", Access: ui.AccessReadOnly}},
		},
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	nothing := func(*http.Request) {}
	for _, test := range []struct {
		name         string
		credentials  func(*http.Request)
		read, action int
	}{
		{"none", nothing, 401, 401},
		{"operator", basic("ann", "open:sesame"), 200, 405},
		{"reader", basic("bob", "looking"), 200, 403},
		{"token", header("Authorization", "Bearer t0ken"), 200, 403},
		{"scheme in lower case", header("Authorization", "bearer t0ken"), 200, 403},
		{"wrong password", basic("ann", "open"), 401, 401},
		{"another's password", basic("ann", "looking"), 401, 401},
		{"empty", basic("", ""), 401, 401},
		{"wrong token", header("Authorization", "Bearer t0ke"), 401, 401},
		{"empty token", header("Authorization", "Bearer "), 401, 401},
		{"password as token", header("Authorization", "Bearer open:sesame"), 401, 401},
	} {
		for _, path := range []string{"/", "/api/v1/summary", "/static/monitor.css"} {
			got := call(t, server, http.MethodGet, path, test.credentials)
			if got.StatusCode != test.read {
				t.Errorf("%s: GET %s answers %d, want %d", test.name, path, got.StatusCode, test.read)
			}
			if got.StatusCode == http.StatusUnauthorized && len(got.Header.Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s: challenges %q, want two", test.name, got.Header.Values("WWW-Authenticate"))
			}
		}
		if got := call(t, server, http.MethodPost, "/api/v1/summary", test.credentials); got.StatusCode != test.action {
			t.Errorf("%s: POST answers %d, want %d", test.name, got.StatusCode, test.action)
		}
	}
	wantStatus(t, call(t, server, http.MethodGet, "/healthz"), http.StatusOK)
	wantStatus(t, call(t, server, http.MethodGet, "/readyz"), http.StatusOK)
	wantStatus(t, call(t, server, http.MethodGet, "/api/v1/summary?token=t0ken"), http.StatusUnauthorized)
	server.Close()
	for _, secret := range []string{"sesame", "looking", "t0ken"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, log.String())
		}
	}
}

func TestAuthorizeHook(t *testing.T) {
	t.Parallel()
	levels := map[string]ui.Access{"none": ui.AccessNone, "look": ui.AccessReadOnly, "act": ui.AccessOperate, "odd": 77}
	hook := func(r *http.Request) ui.Access { return levels[r.Header.Get("Role")] }
	server := serve(t, ui.Options{Auth: ui.Auth{Authorize: hook}})
	capped := serve(t, ui.Options{Auth: ui.Auth{Authorize: hook}, ReadOnly: true})

	for _, test := range []struct {
		role                       string
		read, action, cappedAction int
	}{{"none", 403, 403, 403}, {"look", 200, 403, 403}, {"act", 200, 405, 403}, {"odd", 403, 403, 403}} {
		role := header("Role", test.role)
		wantStatus(t, call(t, server, http.MethodGet, "/", role), test.read)
		wantStatus(t, call(t, server, http.MethodPost, "/api/v1/summary", role), test.action)
		wantStatus(t, call(t, capped, http.MethodGet, "/", role), test.read)
		wantStatus(t, call(t, capped, http.MethodPost, "/api/v1/summary", role), test.cappedAction)
	}
	wantContains(t, call(t, capped, http.MethodGet, "/", header("Role", "act")), `id="read-only"`)
}

func TestCrossOriginRequestsAreRefused(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{TrustedOrigins: []string{"https://ops.example.org"}})
	for _, test := range []struct {
		name   string
		edit   []func(*http.Request)
		status int
	}{
		{"no browser", nil, 405},
		{"same origin", []func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, 405},
		{"cross site", []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403},
		{"same site only", []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403},
		{"foreign origin", []func(*http.Request){header("Origin", "https://evil.example.org")}, 403},
		{"trusted origin", []func(*http.Request){header("Origin", "https://ops.example.org"), header("Sec-Fetch-Site", "cross-site")}, 405},
	} {
		if got := call(t, server, http.MethodPost, "/api/v1/summary", test.edit...); got.StatusCode != test.status {
			t.Errorf("%s: status %d, want %d", test.name, got.StatusCode, test.status)
		}
	}
	wantStatus(t, call(t, server, http.MethodGet, "/", header("Sec-Fetch-Site", "cross-site")), http.StatusOK)
}

func TestReadAuth(t *testing.T) {
	t.Parallel()
	write := func(content string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	auth, err := ui.ReadAuth(write("# people\n\noperate password ann open:ses #ame\r\n \tread-only\tpassword  bob \t b \n"+
		"  # programs\noperate token robot t:0ken\nread-only token ann t1ken\n"+
		"read-only proxy X-Forwarded-User 10.1.2.3/8,::1,192.0.2.7", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	wantUsers := []ui.User{{"ann", "open:ses #ame", ui.AccessOperate}, {"bob", "b ", ui.AccessReadOnly}}
	wantTokens := []ui.Token{{"t:0ken", "robot", ui.AccessOperate}, {"t1ken", "ann", ui.AccessReadOnly}}
	wantProxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.7/32")}
	if !slices.Equal(auth.Users, wantUsers) || !slices.Equal(auth.Tokens, wantTokens) || !slices.Equal(auth.TrustedProxies, wantProxies) ||
		auth.ProxyHeader != "X-Forwarded-User" || auth.ProxyAccess != ui.AccessReadOnly || auth.Validate() != nil {
		t.Errorf("read %+v", auth)
	}
	for name, path := range map[string]string{
		"writable by others":  write("operate password ann x\n", 0o666),
		"writable by a group": write("operate password ann x\n", 0o620),
		"no credentials":      write("# none\n", 0o600),
		"missing":             filepath.Join(t.TempDir(), "none"),
	} {
		if _, err := ui.ReadAuth(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, test := range map[string]struct{ line, says string }{
		"one word":               {"hunter2", "ROLE KIND NAME SECRET"},
		"name and password":      {"ann:hunter2", "ROLE KIND NAME SECRET"},
		"three words":            {"operate password hunter2", "ROLE KIND NAME SECRET"},
		"no secret":              {"operate password hunter2 \t", "missing"},
		"other order":            {"hunter2 operate password ann", "role"},
		"access that is none":    {"none password ann hunter2", "role"},
		"role in capitals":       {"Operate password ann hunter2", "role"},
		"byte order mark":        {"\ufeffoperate password ann hunter2", "role"},
		"kind left out":          {"operate ann hunter2 hunter2", "kind"},
		"colon in a name":        {"operate password hunter2: x", "Name is empty or holds a colon"},
		"control in a name":      {"operate password hunter2\x01 x", "Name holds control characters"},
		"control in a token's":   {"operate token hunter2\x01 x", "Name holds control characters"},
		"name that is too long":  {"operate token " + strings.Repeat("hunter2", 29) + " x", "more than 200 bytes"},
		"token with white space": {"read-only token ann hunter2 x", "Value is empty or holds white space"},
		"proxy by name":          {"operate proxy X-User hunter2", "addresses or ranges"},
		"range that is none":     {"operate proxy X-User ::1,10.0.0.0/40", "addresses or ranges"},
		"range in another":       {"operate proxy X-User ::ffff:10.0.0.0/104", "addresses or ranges"},
		"range with a zone":      {"operate proxy X-User fe80::1%hunter2", "addresses or ranges"},
		"proxy without address":  {"operate proxy hunter2", "ROLE KIND NAME SECRET"},
		"header of another use":  {"operate proxy Authorization ::1", "header"},
		"header with a colon":    {"operate proxy hunter2: ::1", "header"},
		"second proxy":           {"operate proxy X-User ::1\noperate proxy X-Name ::1", "line 3: this is a second proxy"},
		"token with a blank end": {"read-only token ann hunter2 ", "Value is empty or holds white space"},
	} {
		path := write("operate password ann x\n"+test.line+"\n", 0o600)
		auth, err := ui.ReadAuth(path)
		if auth.Enabled() || err == nil || !strings.Contains(err.Error(), path+", line ") || !strings.Contains(err.Error(), test.says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v; want %q, the file and line 2 named and nothing quoted", name, err, test.says)
		}
	}
}

func TestOptionsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for field, options := range map[string]ui.Options{
		"Options.Source":         {},
		"Options.BasePath":       {Source: always(ui.Snapshot{}), BasePath: "ops/"},
		"Options.AllowedHosts":   {Source: always(ui.Snapshot{}), AllowedHosts: []string{"*.example.org"}},
		"Options.TrustedOrigins": {Source: always(ui.Snapshot{}), TrustedOrigins: []string{"example.org"}},
		"Options.MaxStreams":     {Source: always(ui.Snapshot{}), MaxStreams: -1},
		"Auth.Users[0].Access":   {Source: always(ui.Snapshot{}), Auth: ui.Auth{Users: []ui.User{{Name: "a", Password: "b"}}}},
		"Auth.Tokens[0].Value":   {Source: always(ui.Snapshot{}), Auth: ui.Auth{Tokens: []ui.Token{{Access: ui.AccessOperate}}}},
	} {
		if _, err := ui.NewHandler(options); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v; want one that names %s", err, field)
		}
	}
}
