package ui_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

type listed struct {
	Messages []struct {
		Sequence int64 `json:"global_sequence"`
		State    string
		Error    *string `json:"last_error"`
		Attempts int
	}
	Next *int64
}

// sequences asks for a list.
func sequences(t *testing.T, server *httptest.Server, query string) (found []int64, next *int64) {
	t.Helper()
	got := api(t, server, http.MethodGet, "/messages"+query, "")
	wantStatus(t, got, http.StatusOK)
	body := decode[listed](t, got)
	for _, m := range body.Messages {
		found = append(found, m.Sequence)
	}
	return found, body.Next
}

// upTo is one page of the list, put together from as many as a busy machine makes of it: one that looked for
// too long ends early, and says where to go on.
func upTo(t *testing.T, server *httptest.Server, query string) (found []int64) {
	t.Helper()
	values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(cmp.Or(values.Get("limit"), "100"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, next := sequences(t, server, query)
		found = append(found, page...)
		if next == nil || len(found) >= limit {
			return found
		}
		values.Set("after", strconv.FormatInt(*next, 10))
		query = "?" + values.Encode()
	}
}

// six is an outbox with messages 1 to 6: dead, blocked, failed, pending,
// published, skipped.
func six(t *testing.T) *outbox {
	t.Helper()
	o := newOutbox(t, 64)
	dead, blocked := o.append(t, "a"), o.append(t, "a", `topic => 'shop'`)
	failed := o.append(t, "b", `topic => 'shop'`)
	o.append(t, "c")
	published, skipped := o.append(t, "d"), o.append(t, "e", `metadata => '{"traceparent": "00-pl4nted"}'`)
	o.kill(t, "too large", dead)
	o.park(t, `blocked = true`, blocked)
	o.fail(t, failed)
	o.publish(t, published)
	o.kill(t, "never mind", skipped)
	server := o.serve(t, ui.Options{})
	wantStatus(t, api(t, server, http.MethodPost, "/messages/skip", fmt.Sprintf(`{"sequences": [%d], "reason": "r"}`, skipped)), http.StatusOK)
	return o
}

func TestMessagesAreListed(t *testing.T) {
	t.Parallel()
	o := six(t)
	server := o.serve(t, ui.Options{})
	event := one[uuid.UUID](t, o, `SELECT event_id FROM events WHERE sequence = 3`)
	for query, want := range map[string][]int64{
		"":                                     {1, 2, 3, 4, 5, 6},
		"?state=dead":                          {1},
		"?state=dead&state=failed":             {1, 3},
		"?state=skipped":                       {6},
		"?stream=a":                            {1, 2},
		"?stream=a&topic=shop":                 {2},
		"?topic=shop&type=thing.done":          {2, 3},
		"?type=none":                           nil,
		"?id=" + event.String():                {3},
		"?sequence=5":                          {5},
		"?error_contains=large":                {1},
		"?since=10m":                           {1, 2, 3, 4, 5, 6},
		"?until=10m":                           nil,
		"?until=2999-01-01T00:00:00Z":          {1, 2, 3, 4, 5, 6},
		"?newest_first=true&limit=2":           {6, 5},
		"?newest_first=true&after=3":           {2, 1},
		"?newest_first=false&after=4":          {5, 6},
		"?state=&stream=&after=":               {1, 2, 3, 4, 5, 6},
		"?stream=" + strings.Repeat("%2E", 10): nil,
		fmt.Sprintf("?partition=%d&partition=%d", partition.Of("c", 64), partition.Of("d", 64)): {4, 5},
	} {
		if got := upTo(t, server, query); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	var all []int64
	for query := "?limit=4"; ; {
		page, next := sequences(t, server, query)
		all = append(all, page...)
		if next == nil {
			break
		}
		query = fmt.Sprintf("?limit=4&after=%d", *next)
	}
	if fmt.Sprint(all) != "[1 2 3 4 5 6]" {
		t.Errorf("paged: %v", all)
	}
	if got := api(t, server, http.MethodHead, "/messages", ""); got.StatusCode != http.StatusOK || got.text != "" {
		t.Errorf("HEAD: %d, %q", got.StatusCode, got.text)
	}
}

func TestAMessageTellsEverything(t *testing.T) {
	t.Parallel()
	o := six(t)
	server := o.serve(t, ui.Options{})
	type detail struct {
		Sequence   int64 `json:"global_sequence"`
		State      string
		Behind     int64
		NextBehind []struct {
			Sequence int64 `json:"global_sequence"`
		} `json:"next_behind"`
		BlockedBy *struct {
			Sequence int64 `json:"global_sequence"`
		} `json:"blocked_by"`
		Metadata   any
		Hidden     bool `json:"metadata_hidden"`
		Deliveries []struct {
			State          string
			StreamSequence *int64 `json:"stream_sequence"`
		}
		Actions []struct{ Actor, Action, Reason string }
	}
	show := func(path string) detail {
		t.Helper()
		got := api(t, server, http.MethodGet, path, "")
		wantStatus(t, got, http.StatusOK)
		return decode[detail](t, got)
	}
	if d := show("/messages/1"); d.State != "dead" || d.Behind != 1 || len(d.NextBehind) != 1 || d.NextBehind[0].Sequence != 2 || d.BlockedBy != nil {
		t.Errorf("the dead one is %+v", d)
	}
	if d := show("/messages/2"); d.State != "blocked" || d.BlockedBy == nil || d.BlockedBy.Sequence != 1 {
		t.Errorf("the blocked one is %+v", d)
	}
	if d := show("/messages/5"); len(d.Deliveries) != 1 || *d.Deliveries[0].StreamSequence != 1 || len(d.Actions) != 0 {
		t.Errorf("the published one is %+v", d)
	}
	event := one[uuid.UUID](t, o, `SELECT event_id FROM events WHERE sequence = 6`)
	for _, path := range []string{"/messages/6", "/messages/" + event.String()} {
		d := show(path)
		if d.Sequence != 6 || d.State != "skipped" || len(d.Actions) != 1 || d.Actions[0].Action != "dead.skip" || d.Actions[0].Actor != "local" {
			t.Errorf("%s is %+v", path, d)
		}
		if d.Metadata != nil || !d.Hidden {
			t.Errorf("%s: the metadata is shown: %v", path, d.Metadata)
		}
	}
	wantProblem(t, api(t, server, http.MethodGet, "/messages/99", ""), http.StatusNotFound, "not_found", "sequence")
	wantProblem(t, api(t, server, http.MethodGet, "/messages/"+uuid.NewString(), ""), http.StatusNotFound, "not_found", "event_id")
	for _, name := range []string{"0", "-1", "+1", "1e3", "one", uuid.Nil.String(), "99999999999999999999", "1%2F2"} {
		wantProblem(t, api(t, server, http.MethodGet, "/messages/"+name, ""), http.StatusBadRequest, "invalid", "sequence")
	}
	const first, second = "0199a2f0-5b1c-7c00-8000-00000a1b2c3d", "0199a2f0-5b1c-7c00-8000-00000a1b2c4e"
	o.append(t, "g", `event_id => '`+first+`'`)
	o.append(t, "g", `event_id => '`+second+`'`)
	if d := show("/messages/" + first[:35]); d.Sequence != 7 {
		t.Errorf("the beginning of an id shows %+v", d)
	}
	p := wantProblem(t, api(t, server, http.MethodGet, "/messages/"+first[:8], ""), http.StatusBadRequest, "invalid", "event_id")
	if !strings.Contains(p.Error.Message, first) || !strings.Contains(p.Error.Message, second) {
		t.Errorf("what two ids have in common is refused with %q", p.Error.Message)
	}
}

// A payload is shown where it was allowed, to those who operate; and it is a
// file, whatever is in it.
func TestPayloadsAreHidden(t *testing.T) {
	t.Parallel()
	o := six(t)
	auth := ui.Auth{Users: []ui.User{
		{Name: "ann", Password: "a", Access: ui.AccessOperate}, {Name: "bob", Password: "b", Access: ui.AccessReadOnly},
	}}
	as := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	ann, bob := as("ann", "a"), as("bob", "b")
	closed, open := o.serve(t, ui.Options{Auth: auth}), o.serve(t, ui.Options{Auth: auth, ShowPayload: true})
	frozen := o.serve(t, ui.Options{Auth: auth, ShowPayload: true, ReadOnly: true})
	for name, test := range map[string]struct {
		server *httptest.Server
		who    func(*http.Request)
		shown  bool
	}{
		"closed, operator": {closed, ann, false},
		"open, reader":     {open, bob, false},
		"open, operator":   {open, ann, true},
		"frozen, operator": {frozen, ann, true},
	} {
		payload, detail := api(t, test.server, http.MethodGet, "/messages/6/payload", "", test.who), api(t, test.server, http.MethodGet, "/messages/6", "", test.who)
		if shown := strings.Contains(detail.text, "00-pl4nted"); shown != test.shown {
			t.Errorf("%s: metadata are shown: %v", name, shown)
		}
		if !test.shown {
			wantProblem(t, payload, http.StatusForbidden, "payload_hidden", "")
			if strings.Contains(payload.text, "pl4nted") {
				t.Errorf("%s: the payload is in %s", name, payload.text)
			}
			continue
		}
		wantStatus(t, payload, http.StatusOK)
		if payload.text != `{"secret": "pl4nted"}` {
			t.Errorf("%s: the payload is %s", name, payload.text)
		}
		for header, want := range map[string]string{
			"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="event-6.bin"`,
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		} {
			if got := payload.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
	wantProblem(t, api(t, open, http.MethodGet, "/messages/99/payload", "", ann), http.StatusNotFound, "not_found", "sequence")
	wantProblem(t, api(t, open, http.MethodGet, "/messages/x/payload", "", ann), http.StatusBadRequest, "invalid", "sequence")
	log := o.log.String()
	if strings.Contains(log, "pl4nted") {
		t.Error("the log holds a payload or metadata")
	}
	if n := strings.Count(log, `msg="monitor shows a payload" actor=ann sequence=6`); n != 2 {
		t.Errorf("%d looks at a payload are logged, want 2:\n%s", n, log)
	}
}
