package ui_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

// from has a client connect from another loopback address.
func from(address string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// callFrom sends a request from that address; edit is as in call.
func callFrom(t *testing.T, server *httptest.Server, address, method, path string, edit ...func(*http.Request)) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range edit {
		change(request)
	}
	response, err := from(address).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return answer{Response: response}
}

// The name that a proxy gives is believed when the connection comes from a
// trusted proxy, and from nobody else.
func TestProxyIdentity(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{Auth: ui.Auth{
		ProxyHeader: "X-Forwarded-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")},
		ProxyAccess: ui.AccessOperate, Users: []ui.User{{Name: "ann", Password: "a", Access: ui.AccessReadOnly}},
	}})
	user := func(name string) func(*http.Request) { return header("X-Forwarded-User", name) }
	wantStatus(t, api(t, server, http.MethodPost, "/partitions/pause", `{"partitions": [1]}`, user("zoë@example.org")), http.StatusOK)
	o.wantAudits(t, entry{"zoë@example.org", "partition.pause", ""})

	for name, edit := range map[string]func(*http.Request){
		"two headers":    func(r *http.Request) { r.Header["X-Forwarded-User"] = []string{"ann", "root"} },
		"a list":         user("ann, root"),
		"empty":          user(""),
		"blank":          user("  \t"),
		"too long":       user(strings.Repeat("x", 201)),
		"not UTF-8":      user("\xff"),
		"with a tab":     user("a\tb"),
		"other spelling": func(r *http.Request) { r.Header["x-forwarded-user"] = []string{"ann", "root"} },
	} {
		if got := api(t, server, http.MethodGet, "/summary", "", edit); got.StatusCode != http.StatusForbidden || !strings.Contains(got.text, "proxy_not_trusted") {
			t.Errorf("%s: %d, %s", name, got.StatusCode, got.text)
		}
	}
	// Another address, whatever it says about where it comes from.
	for _, edit := range [][]func(*http.Request){
		{user("root")},
		{user("root"), header("X-Forwarded-For", "127.0.0.1"), header("X-Real-Ip", "127.0.0.1"), header("Forwarded", "for=127.0.0.1")},
		{user("root"), func(r *http.Request) { r.SetBasicAuth("ann", "a") }},
	} {
		wantStatus(t, callFrom(t, server, "127.0.0.2", http.MethodGet, "/api/v1/summary", edit...), http.StatusForbidden)
		wantStatus(t, callFrom(t, server, "127.0.0.2", http.MethodPost, "/api/v1/partitions/pause", edit...), http.StatusForbidden)
	}
	// Names that only look like the header's are no identity.
	for _, name := range []string{"X_Forwarded_User", "X-Forwarded-Users", "Remote-User"} {
		wantProblem(t, api(t, server, http.MethodGet, "/summary", "", header(name, "root")), http.StatusUnauthorized, "unauthorized", "")
	}
	// Without the header the other ways count.
	basic := func(r *http.Request) { r.SetBasicAuth("ann", "a") }
	wantStatus(t, callFrom(t, server, "127.0.0.2", http.MethodGet, "/api/v1/summary", basic), http.StatusOK)
	wantStatus(t, callFrom(t, server, "127.0.0.2", http.MethodGet, "/api/v1/summary"), http.StatusUnauthorized)
	o.wantAudits(t, entry{"zoë@example.org", "partition.pause", ""})
}

// Guessing at a user ends after twenty attempts, for the address and that user alone, and a right guess
// tells nothing then. Whoever shares the address gets through, whatever floods it.
func TestGuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{Auth: ui.Auth{
		Users: []ui.User{
			{Name: "ann", Password: "right", Access: ui.AccessOperate}, {Name: "bob", Password: "right", Access: ui.AccessReadOnly},
		},
		Tokens:      []ui.Token{{Value: "t0ken", Access: ui.AccessOperate}},
		ProxyHeader: "X-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ProxyAccess: ui.AccessReadOnly,
	}})
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	summary := func(as func(*http.Request)) answer {
		t.Helper()
		return api(t, server, http.MethodGet, "/summary", "", as)
	}
	// On a machine that stood still meanwhile another guess may be allowed: then it goes on.
	wantRefused := func(guess func(), as func(*http.Request)) {
		t.Helper()
		got := summary(as)
		for try := 0; got.StatusCode != http.StatusTooManyRequests && try < 10; try++ {
			guess()
			got = summary(as)
		}
		wantProblem(t, got, http.StatusTooManyRequests, "too_many_attempts", "")
		if after := got.Header.Get("Retry-After"); after == "" || after == "0" {
			t.Errorf("Retry-After is %q", after)
		}
	}
	token := header("Authorization", "Bearer t0ken")
	for range 50 { // right ones cost nothing
		wantStatus(t, summary(basic("ann", "right")), http.StatusOK)
	}
	for i := range 20 {
		wantStatus(t, summary(basic("ann", fmt.Sprint("guess ", i))), http.StatusUnauthorized)
	}
	passwords := func() {
		for i := range 20 {
			summary(basic("ann", fmt.Sprint("guess ", i)))
		}
	}
	wantRefused(passwords, basic("ann", "wrong"))
	wantRefused(passwords, basic("ann", "right"))
	names := func() {
		for i := range 250 {
			summary(basic(fmt.Sprint("nobody ", i), "right"))
		}
	}
	names()
	wantRefused(names, basic("nobody", "right"))
	wantStatus(t, summary(token), http.StatusOK)
	tokens := func() {
		for i := range 250 {
			summary(header("Authorization", fmt.Sprint("Bearer guess", i)))
		}
	}
	tokens()
	wantRefused(tokens, token)
	wantStatus(t, summary(basic("bob", "right")), http.StatusOK)
	wantStatus(t, callFrom(t, server, "127.0.0.3", http.MethodGet, "/api/v1/summary", basic("ann", "right")), http.StatusOK)
	wantStatus(t, summary(header("X-User", "zoe")), http.StatusOK)
	wantStatus(t, call(t, server, http.MethodGet, "/healthz"), http.StatusOK)
	if n := strings.Count(o.log.String(), "too many wrong credentials from one address"); n < 3 {
		t.Errorf("%d warnings in the log, want one of each kind", n)
	}
}

// The program that embeds the monitor says who it is; what it does not say, and
// what cannot be a name, is not written in anybody else's.
func TestEmbeddedIdentity(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{Auth: ui.Auth{
		Authorize: func(r *http.Request) ui.Access {
			if r.Header.Get("Session") == "" {
				return ui.AccessNone
			}
			return ui.AccessOperate
		},
		Identify: func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Session"), "s-") },
	}})
	pause := func(session string, partition int) answer {
		t.Helper()
		return api(t, server, http.MethodPost, "/partitions/pause", fmt.Sprintf(`{"partitions": [%d]}`, partition), header("Session", session))
	}
	wantStatus(t, pause("s-ann", 0), http.StatusOK)
	wantStatus(t, pause("s-", 1), http.StatusOK)
	wantProblem(t, pause("s-"+strings.Repeat("x", 201), 2), http.StatusBadRequest, "invalid", "actor")
	wantProblem(t, pause("", 3), http.StatusForbidden, "forbidden", "")
	o.wantAudits(t, entry{"ann", "partition.pause", ""}, entry{"embedded", "partition.pause", ""})
}
