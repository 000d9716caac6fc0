package ui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

// threeCauses is an outbox with 4, 2 and 1 dead messages of three causes, and the sequence of the last one.
func threeCauses(t *testing.T) (o *outbox, single int64) {
	t.Helper()
	o = newOutbox(t, 8)
	for n := range 4 {
		o.kill(t, fmt.Sprintf("payload of %d bytes is too large", 100+n), o.append(t, fmt.Sprintf("s-%d", n)))
	}
	for n := range 2 {
		o.kill(t, fmt.Sprintf("payload of %d bytes is too large", 100+n), o.append(t, fmt.Sprintf("t-%d", n), `topic => 'shop & co'`))
	}
	single = o.append(t, "u")
	o.kill(t, "no such subject <b>", single)
	return o, single
}

func TestCausesAreListed(t *testing.T) {
	t.Parallel()
	o, single := threeCauses(t)
	server := o.serve(t, ui.Options{})
	type cause struct {
		Count   int64
		Topic   string
		Type    string  `json:"event_type"`
		Family  string  `json:"error_family"`
		Class   *string `json:"error_class"`
		Example int64   `json:"example_sequence"`
		Error   string  `json:"example_error"`
	}
	type causes struct {
		Causes   []cause
		Others   int64
		Complete bool
	}
	got := api(t, server, http.MethodGet, "/messages/causes", "")
	wantStatus(t, got, http.StatusOK)
	want := []cause{
		{4, "default", "thing.done", "payload of # bytes is too large", nil, 1, "payload of 100 bytes is too large"},
		{2, "shop & co", "thing.done", "payload of # bytes is too large", nil, 5, "payload of 100 bytes is too large"},
		{1, "default", "thing.done", "no such subject <b>", nil, single, "no such subject <b>"},
	}
	if body := decode[causes](t, got); fmt.Sprint(body.Causes) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", body.Causes, want)
	}
	got = api(t, server, http.MethodGet, "/messages/causes?error_family="+url.QueryEscape(want[0].Family)+"&topic="+url.QueryEscape("shop & co"), "")
	if body := decode[causes](t, got); len(body.Causes) != 1 || body.Causes[0] != want[1] {
		t.Errorf("%v, want %v alone", body.Causes, want[1])
	}
	if found := upTo(t, server, "?state=dead&topic=default&error_family="+url.QueryEscape(want[0].Family)); fmt.Sprint(found) != "[1 2 3 4]" {
		t.Errorf("the list of the cause is %v", found)
	}
	for query, field := range map[string]string{"?state=dead": "state", "?limit=3": "limit", "?since=x": "since", "?error_family=%ff": "error_family"} {
		wantProblem(t, api(t, server, http.MethodGet, "/messages/causes"+query, ""), http.StatusBadRequest, "invalid", field)
	}
	done := api(t, server, http.MethodPost, "/messages/discard",
		`{"filter": {"topic": "shop & co", "error_family": "payload of # bytes is too large"}, "reason": "r", "expected_count": 2}`)
	wantStatus(t, done, http.StatusOK)
}

// Each cause's button asks about its messages alone, and afterwards the rest is shown.
func TestACauseIsActedOnAsAWhole(t *testing.T) {
	t.Parallel()
	o, single := threeCauses(t)
	server := o.serve(t, ui.Options{})
	page := call(t, server, http.MethodGet, "/messages/causes")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "7 dead messages, 3 causes", "no such subject &lt;b&gt;", `id="c-5"`)
	wantLacks(t, page, "subject <b>", "At least")
	_, row, _ := strings.Cut(page.text, `id="c-5"`)
	link := regexp.MustCompile(`href="\.\./(messages/confirm\?[^"]+all=discard)"`).FindStringSubmatch(row)
	if link == nil {
		t.Fatalf("no way to discard a cause: %.800s", row)
	}
	asked := call(t, server, http.MethodGet, "/"+html.UnescapeString(link[1]))
	wantStatus(t, asked, http.StatusOK)
	wantContains(t, asked, "Discard 2 messages?", "All that match topic shop &amp; co, type thing.done, last error like payload of # bytes is too large: 2 dead")
	form := url.Values{"reason": {"never mind"}}
	for _, field := range regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(asked.text, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	done := call(t, server, http.MethodPost, "/actions/messages", withBody(form.Encode()), header("Content-Type", "application/x-www-form-urlencoded"))
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../messages/causes?done=discard&n=2" {
		t.Errorf("it leads to %s", to)
	}
	page = call(t, server, http.MethodGet, "/messages/causes?done=discard&n=2")
	wantContains(t, page, "2 messages were discarded.", "5 dead messages, 2 causes", fmt.Sprintf(`id="c-%d"`, single))

	readOnly := call(t, o.serve(t, ui.Options{ReadOnly: true}), http.MethodGet, "/messages/causes")
	wantContains(t, readOnly, "5 dead messages")
	wantLacks(t, readOnly, "Discard…")
	wantContains(t, call(t, server, http.MethodGet, "/messages/causes?topic=none"), "Of topic none alone.", "No message is dead there.")
	wantStatus(t, call(t, server, http.MethodGet, "/messages/causes?sequence=1"), http.StatusBadRequest)
}
