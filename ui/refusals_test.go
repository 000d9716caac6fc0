package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/ui"
)

// worker0 is no worker's.
const worker0 = "00000000-0000-0000-0000-000000000009"

// posts are the addresses that take commands, each with one that could be taken.
var posts = map[string]string{
	"/messages/requeue":              `{"all": true, "reason": "wh1"}`,
	"/messages/skip":                 `{"all": true, "reason": "wh1"}`,
	"/messages/discard":              `{"all": true, "reason": "wh1"}`,
	"/partitions/pause":              `{"all": true, "reason": "wh1"}`,
	"/partitions/resume":             `{"all": true, "reason": "wh1"}`,
	"/workers/" + worker0 + "/drain": `{"reason": "wh1"}`,
}

// gets are all other addresses but the stream.
var gets = []string{
	"/openapi.yaml", "/summary", "/workers", "/partitions", "/partitions/0", "/messages", "/messages/1", "/messages/1/payload",
	"/throughput", "/ownership", "/audit",
}

func TestWrongParametersAreRefused(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	o.append(t, "a")
	server := o.serve(t, ui.Options{ShowPayload: true})
	refused := func(method, path, body, field string) {
		t.Helper()
		wantProblem(t, api(t, server, method, path, body), http.StatusBadRequest, "invalid", field)
	}
	for _, path := range append(gets, "/events") {
		wantStatus(t, api(t, server, http.MethodHead, path, ""), http.StatusOK)
		refused(http.MethodGet, path+"?nonsense=1", "", "nonsense")
		refused(http.MethodGet, path+"?nonsense=", "", "nonsense")
		refused(http.MethodGet, path+"?a=%zz", "", "query")
		refused(http.MethodGet, path+"?a=1;b=2", "", "query")
	}
	for path, body := range posts {
		refused(http.MethodPost, path+"?dry_run=true", body, "dry_run")
	}
	o.wantAudits(t)
	for query, field := range map[string]string{
		"stream=a&stream=b": "stream", "limit=1&limit=1": "limit", "state=odd": "state", "state=audit_only": "state",
		"partition=-1": "partition", "partition=+1": "partition", "partition=x": "partition", "partition=40000": "partition",
		"id=1": "id", "id=" + uuid.Nil.String(): "id", "sequence=0": "sequence", "sequence=x": "sequence", "sequence=1.5": "sequence",
		"since=yesterday": "since", "since=-1h": "since", "until=2026-02-30T00:00:00Z": "until", "since=1h&until=2h": "until",
		"after=-1": "after", "after=0": "after", "limit=0": "limit", "limit=1001": "limit", "limit=99999999999999999999": "limit",
		"newest_first=1": "newest_first", "newest_first=TRUE": "newest_first", "stream=%ff": "stream", "stream=a%00b": "stream",
	} {
		refused(http.MethodGet, "/messages?"+query, "", field)
	}
	for _, path := range []string{"/audit", "/ownership"} {
		for query, field := range map[string]string{"after=x": "after", "limit=1001": "limit", "after=1&after=2": "after"} {
			refused(http.MethodGet, path+"?"+query, "", field)
		}
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	dead, pending := o.append(t, "a"), o.append(t, "b")
	o.kill(t, "e", dead)
	server := o.serve(t, ui.Options{})
	for body, field := range map[string]string{
		``: "body", `{`: "body", `null and void`: "body", `[]`: "body", `"all"`: "body", `{} {}`: "body", `{"reason": ""}}`: "body",
		`{"nonsense": 1}`: "nonsense", `{"all": "yes"}`: "all", `{"dry_run": 1}`: "dry_run", `{"reason": 1}`: "reason",
	} {
		for path := range posts {
			wantProblem(t, api(t, server, http.MethodPost, path, body), http.StatusBadRequest, "invalid", field)
		}
	}
	for body, field := range map[string]string{
		`{}`: "selection", `null`: "selection", `{"reason": "r"}`: "selection", `{"all": true, "sequences": [1]}`: "selection",
		`{"sequences": []}`: "selection", `{"sequences": [0]}`: "sequence", `{"sequences": [1.5]}`: "sequences", `{"sequences": ["1"]}`: "sequences",
		`{"all": true, "state": "pending"}`: "state", `{"all": true, "state": "failed"}`: "state", `{"filter": {}}`: "filter",
		`{"filter": {"stream": ""}}`: "stream", `{"filter": {"partitions": []}}`: "partitions", `{"filter": {"partitions": [-1]}}`: "partition",
		`{"filter": {"partitions": [40000]}}`: "partition", `{"filter": {"id": "1"}}`: "id", `{"filter": {"since": "soon"}}`: "since",
		`{"filter": {"until": ""}}`: "until", `{"filter": {"streams": "a"}}`: "streams", `{"filter": {"error_contains": ""}}`: "error_contains",
		`{"all": true, "expected_count": -1}`: "expected_count", `{"all": true}`: "reason", `{"all": true, "reason": " "}`: "reason",
		`{"all": true, "reason": "` + strings.Repeat("x", 2001) + `"}`: "reason", `{"all": true, "reason": "a\u0000b"}`: "reason",
		`{"sequences": [` + strings.Repeat("1,", 10_000) + `1]}`: "sequence",
	} {
		for _, way := range []string{"skip", "discard"} {
			wantProblem(t, api(t, server, http.MethodPost, "/messages/"+way, body), http.StatusBadRequest, "invalid", field)
		}
	}
	p := wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", fmt.Sprintf(`{"sequences": [%d, %d, 99]}`, dead, pending)),
		http.StatusConflict, "wrong_state", "sequence")
	if fmt.Sprint(p.Error.Sequences) != fmt.Sprint([]int64{pending, 99}) {
		t.Errorf("the refusal names %v", p.Error.Sequences)
	}
	wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", `{"sequences": [99]}`), http.StatusNotFound, "not_found", "sequence")
	wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", `{"filter": {"partitions": [4]}}`), http.StatusNotFound, "not_found", "partition")
	for body, field := range map[string]string{
		`{}`: "selection", `{"partitions": []}`: "selection", `{"partitions": [1], "all": true}`: "selection", `{"partitions": [-1]}`: "partition",
		`{"partitions": [40000]}`: "partition", `{"partitions": ["1"]}`: "partitions", `{"all": true, "reason": "` + strings.Repeat("x", 2001) + `"}`: "reason",
	} {
		wantProblem(t, api(t, server, http.MethodPost, "/partitions/pause", body), http.StatusBadRequest, "invalid", field)
	}
	o.wantAudits(t)
}

func TestOtherBodiesAreRefused(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{MaxBodyBytes: 100})
	for path, body := range posts {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "application/json, text/plain"} {
			wantProblem(t, api(t, server, http.MethodPost, path, body, header("Content-Type", kind)), http.StatusUnsupportedMediaType, "unsupported_media_type", "")
		}
		large := `{"reason": "` + strings.Repeat("x", 100) + `"}`
		wantProblem(t, api(t, server, http.MethodPost, path, large), http.StatusRequestEntityTooLarge, "too_large", "")
		unannounced := func(r *http.Request) { r.ContentLength = -1 }
		wantProblem(t, api(t, server, http.MethodPost, path, large, unannounced), http.StatusRequestEntityTooLarge, "too_large", "")
	}
	o.wantAudits(t)
	got := api(t, server, http.MethodPost, "/partitions/pause", `{"all": true}`, header("Content-Type", "Application/JSON; charset=utf-8"))
	wantStatus(t, got, http.StatusOK)
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	server := newOutbox(t, 4).serve(t, ui.Options{})
	for _, path := range append(gets, "/events") {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace} {
			got := call(t, server, method, "/api/v1"+path)
			wantProblem(t, got, http.StatusMethodNotAllowed, "method_not_allowed", "")
			if allow := got.Header.Get("Allow"); allow != "GET, HEAD" {
				t.Errorf("%s %s: Allow is %q", method, path, allow)
			}
		}
	}
	for path := range posts {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions, "FROB"} {
			got := call(t, server, method, "/api/v1"+path)
			wantProblem(t, got, http.StatusMethodNotAllowed, "method_not_allowed", "")
			if allow := got.Header.Get("Allow"); !strings.Contains(allow, "POST") {
				t.Errorf("%s %s: Allow is %q", method, path, allow)
			}
			if cors := got.Header.Values("Access-Control-Allow-Origin"); len(cors) > 0 {
				t.Errorf("%s %s: other origins are allowed: %q", method, path, cors)
			}
		}
	}
	for _, path := range []string{"/messages/1/frob", "/partitions/0/pause", "/workers/x", "/v2"} {
		wantProblem(t, call(t, server, http.MethodGet, "/api/v1"+path), http.StatusNotFound, "not_found", "")
	}
}

func TestWithoutAnOperator(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := serve(t, ui.Options{Source: o.source, ShowPayload: true})
	for path, body := range posts {
		wantProblem(t, api(t, server, http.MethodPost, path, body), http.StatusNotImplemented, "operator_not_configured", "")
	}
	for _, path := range []string{"/messages", "/messages/1", "/messages/1/payload", "/audit"} {
		wantProblem(t, api(t, server, http.MethodGet, path, ""), http.StatusNotImplemented, "operator_not_configured", "")
	}
	for _, path := range []string{"/summary", "/workers", "/partitions", "/partitions/0", "/throughput", "/ownership"} {
		wantStatus(t, api(t, server, http.MethodGet, path, ""), http.StatusOK)
	}
}

// Read-only holds on the server, for everybody.
func TestReadOnlyActsOnNothing(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	o.kill(t, "e", o.append(t, "a"))
	reader := ui.Auth{Tokens: []ui.Token{{Value: "t", Access: ui.AccessReadOnly}}}
	for name, options := range map[string]ui.Options{"switch": {ReadOnly: true}, "reader": {Auth: reader}} {
		server := o.serve(t, options)
		for path, body := range posts {
			got := api(t, server, http.MethodPost, path, body, header("Authorization", "Bearer t"))
			if p := wantProblem(t, got, http.StatusForbidden, "read_only", ""); !strings.Contains(p.Error.Message, "read-only") {
				t.Errorf("%s: it says %q", name, p.Error.Message)
			}
		}
		for _, path := range []string{"/messages", "/messages/1", "/audit"} {
			wantStatus(t, api(t, server, http.MethodGet, path, "", header("Authorization", "Bearer t")), http.StatusOK)
		}
	}
	o.wantAudits(t)
	if s := o.state(t, 1); s != "dead" {
		t.Errorf("the message is %s", s)
	}
}

// A role that may only look is told so, and the database keeps the rest from it.
func TestARoleWithoutRights(t *testing.T) {
	t.Parallel()
	s := newOrdered(t)
	o := &outbox{address: s.address, pool: s.pool, log: &logged{}}
	o.kill(t, "e", o.append(t, "a"))
	reader := pgtest.Pool(t, s.unprivileged(t, `REVOKE SELECT ON events, outbox_audit FROM {role};
		GRANT SELECT (sequence, event_id, stream_id, stream_version, event_type, tenant_id, metadata, recorded_at,
			topic, audit_only, occurred_at) ON events TO {role};`))
	o.source = always(cluster(4))
	server := o.serve(t, ui.Options{Operator: o.operator(t, reader), ShowPayload: true})
	for path, body := range posts {
		status, code, field := http.StatusServiceUnavailable, "rights_missing", ""
		if strings.Contains(path, "drain") {
			status, code, field = http.StatusNotFound, "not_found", "worker"
		}
		if path == "/partitions/resume" {
			continue // nothing is paused, so nothing is changed
		}
		wantProblem(t, api(t, server, http.MethodPost, path, body), status, code, field)
	}
	wantStatus(t, api(t, server, http.MethodGet, "/messages", ""), http.StatusOK)
	wantStatus(t, api(t, server, http.MethodGet, "/messages/1", ""), http.StatusOK)
	for _, path := range []string{"/audit", "/messages/1/payload"} {
		got := api(t, server, http.MethodGet, path, "")
		wantProblem(t, got, http.StatusServiceUnavailable, "rights_missing", "")
		if got.Header.Get("Retry-After") == "" || strings.Contains(got.text, "permission denied") {
			t.Errorf("%s: Retry-After %q, body %s", path, got.Header.Get("Retry-After"), got.text)
		}
	}
	if log := o.log.String(); !strings.Contains(log, "permission denied for table outbox_audit") {
		t.Errorf("the log does not say what is missing:\n%s", log)
	}
}

// Somebody else holds a partition's row for longer than an operator waits.
func TestARowThatIsHeld(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 1)
	o.kill(t, "e", o.append(t, "a"))
	server := o.serve(t, ui.Options{})
	tx, err := o.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	got := api(t, server, http.MethodPost, "/messages/requeue", `{"all": true}`)
	wantProblem(t, got, http.StatusServiceUnavailable, "busy", "")
	o.wantAudits(t)
}

// A database that does not answer in time, and one that is gone.
func TestADatabaseThatFails(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 1)
	away, err := url.Parse(o.address)
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, away.String())
	op := o.operator(t, pool)
	pool.Close()
	server := o.serve(t, ui.Options{Operator: op})
	for _, path := range []string{"/messages", "/messages/1", "/messages/0199a2f0-5b1c", "/audit"} {
		got := api(t, server, http.MethodGet, path, "")
		wantProblem(t, got, http.StatusServiceUnavailable, "database_failed", "")
	}
	wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", `{"all": true}`), http.StatusServiceUnavailable, "database_failed", "")

	slow := o.serve(t, ui.Options{})
	tx, err := o.pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox_audit`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wantProblem(t, api(t, slow, http.MethodGet, "/audit", ""), http.StatusGatewayTimeout, "timeout", "")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
