package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

var rowID = regexp.MustCompile(`<tr id="m-(\d+)"`)

func rows(page answer) (list []string) {
	for _, match := range rowID.FindAllStringSubmatch(page.text, -1) {
		list = append(list, match[1])
	}
	return list
}

func wantRows(t *testing.T, page answer, want ...int64) {
	t.Helper()
	wantStatus(t, page, http.StatusOK)
	var texts []string
	for _, n := range want {
		texts = append(texts, fmt.Sprint(n))
	}
	if got := rows(page); !slices.Equal(got, texts) {
		t.Errorf("%s shows %v, want %v", page.Request.URL.RequestURI(), got, texts)
	}
}

// fullPage asks for a page of messages, again where it ended because its 30 ms were over.
func fullPage(t *testing.T, server *httptest.Server, path string) answer {
	t.Helper()
	for {
		page := call(t, server, http.MethodGet, path)
		if !strings.Contains(page.text, "data-search-on") {
			return page
		}
	}
}

func TestMessagesAreFiltered(t *testing.T) {
	t.Parallel()
	b := newPages(t, 4)
	waiting, published := b.append(t, "a"), b.append(t, "b")
	failed, dead, blocked := b.append(t, "c"), b.append(t, "d & <e>"), b.append(t, "d & <e>")
	b.publish(t, published)
	b.fail(t, "boom: timeout", failed)
	b.kill(t, "permanent: <b>no</b>", dead)
	b.block(t, blocked)
	server := b.serve(t, ui.Options{})

	id := b.text(t, `SELECT event_id::text FROM events WHERE sequence = $1`, dead)
	for query, want := range map[string][]int64{
		"":                                     {blocked, dead, failed, published, waiting},
		"?state=dead":                          {dead},
		"?state=dead&state=failed":             {dead, failed},
		"?state=published":                     {published},
		"?stream=d+%26+%3Ce%3E":                {blocked, dead},
		"?error_contains=timeout":              {failed},
		"?tenant=nobody":                       {},
		"?since=5m&stream=a":                   {waiting},
		"?until=5m":                            {},
		"?topic=default&type=nothing":          {},
		"?id=" + id:                            {dead},
		fmt.Sprintf("?sequence=%d", published): {published},
		fmt.Sprintf("?sequence=%d&state=dead", published):                                                                       {},
		fmt.Sprintf("?partition=%d&stream=a", b.one(t, `SELECT partition_key FROM outbox WHERE global_sequence = $1`, waiting)): {waiting},
	} {
		wantRows(t, fullPage(t, server, "/messages"+query), want...)
	}

	page := fullPage(t, server, "/messages?state=dead&stream=d+%26+%3Ce%3E")
	wantContains(t, page, "d &amp; &lt;e&gt;", "permanent: &lt;b&gt;no&lt;/b&gt;", `name="dead" value="`, "Discard all…", `name="tenant"`,
		`name="stream" value="d &amp; &lt;e&gt;"`)
	wantLacks(t, page, "<b>no</b>", "<e>")
	for query, complaint := range map[string]string{
		"?state=lost":            "unknown state",
		"?partition=x":           "partition",
		"?id=x":                  "must be a UUID",
		"?sequence=-1":           "sequence",
		"?before=x":              "sequence",
		"?since=soon":            "must be a time",
		"?stream=%00":            "zero bytes",
		"?error_contains=%ff%fe": "UTF-8",
	} {
		page := fullPage(t, server, "/messages"+query)
		wantStatus(t, page, http.StatusBadRequest)
		wantContains(t, page, "This filter cannot be used", complaint)
	}
}

func TestMessagesArePaged(t *testing.T) {
	t.Parallel()
	b := newPages(t, 4)
	var all []int64
	for n := range 120 {
		all = append(all, b.append(t, fmt.Sprintf("s-%d", n%7)))
	}
	slices.Reverse(all)
	server := b.serve(t, ui.Options{})

	link := func(page answer, rel string) string {
		match := regexp.MustCompile(`href="([^"]+)" rel="` + rel + `"`).FindStringSubmatch(page.text)
		if match == nil {
			return ""
		}
		return "/" + strings.ReplaceAll(strings.TrimPrefix(match[1], "./"), "&amp;", "&")
	}
	first := fullPage(t, server, "/messages?state=pending&topic=default")
	wantRows(t, first, all[:50]...)
	second := fullPage(t, server, link(first, "next"))
	wantRows(t, second, all[50:100]...)
	third := fullPage(t, server, link(second, "next"))
	wantRows(t, third, all[100:]...)
	if to := link(third, "next"); to != "" {
		t.Errorf("the last page has a next one: %s", to)
	}
	wantRows(t, fullPage(t, server, link(third, "prev")), all[50:100]...)
	back := fullPage(t, server, link(second, "prev"))
	wantRows(t, back, all[:50]...)
	if to := link(back, "prev"); to != "" {
		t.Errorf("the newest page has a newer one: %s", to)
	}
	if strings.Contains(first.text, `rel="prev"`) || !strings.Contains(first.text, `data-every="5"`) || strings.Contains(second.text, "data-every") {
		t.Error("the first page alone follows what happens")
	}
}

func TestMessageTellsItsStory(t *testing.T) {
	t.Parallel()
	b := newPages(t, 4)
	dead := b.one(t, `SELECT outbox_append('s', 'thing.done', '{"secret": 42}',
		metadata => '{"traceparent": "00-abc", "extra": {"X-<i>": "a\u202eb", "Y": 7}}')`)
	second, third := b.append(t, "s"), b.append(t, "s")
	b.kill(t, "first line\nsecond \u202eline\x1b[31m", dead)
	b.block(t, second, third)
	server := b.serve(t, ui.Options{})

	hidden := call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", dead))
	wantContains(t, hidden, "Metadata is hidden")
	wantLacks(t, hidden, "traceparent", "00-abc", "Show the payload")
	page := call(t, b.serve(t, ui.Options{ShowPayload: true}), http.MethodGet, fmt.Sprintf("/messages/%d", dead))
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "waits for a person", "2 messages wait behind it", fmt.Sprintf(`href="../messages/%d"`, second),
		"first line\nsecond ", `<span class="escape">U&#43;202E</span>line`, `<span class="escape">U&#43;001B</span>[31m`,
		"traceparent", "00-abc", "extra.X-&lt;i&gt;", `a<span class="escape">U&#43;202E</span>b`, `Outbox-Event-Id <span class="dim">(if published)`, `Outbox-Type <span class="dim">(if published)`, "Requeue…", "Discard…", "Show the payload")
	wantLacks(t, page, "secret", "\u202e", "\x1b", "<dt>Due</dt>")
	b.exec(t, `UPDATE outbox SET failures = '[{"at": "2026-01-01T00:00:00Z", "class": "permanent", "text": "no"}]' WHERE global_sequence = $1`, dead)
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", dead)), "given up at once, since trying again mends nothing,")
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", third)), "waits behind", "and goes on by itself")

	b.publish(t, b.append(t, "other"))
	settled := b.one(t, `SELECT last_sequence FROM outbox_deliveries`)
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", settled)), "The stream has acknowledged it.", "Deliveries, the oldest first", `Outbox-Stream <span class="dim">(published)`)
	wantStatus(t, call(t, server, http.MethodGet, "/messages/999999"), http.StatusNotFound)
	wantStatus(t, call(t, server, http.MethodGet, "/messages/nonsense"), http.StatusBadRequest)
	id := b.text(t, `SELECT event_id::text FROM events WHERE sequence = $1`, settled)
	wantContains(t, call(t, server, http.MethodGet, "/messages/"+id), fmt.Sprintf("Message %d", settled))
}

// Of an event that is missing nobody knows what its message would carry.
func TestNoHeadersAreInventedForAMissingEvent(t *testing.T) {
	t.Parallel()
	b := newPages(t, 1)
	missing, known := b.append(t, "gone"), b.append(t, "here")
	b.exec(t, `DELETE FROM events WHERE sequence = $1`, missing)
	b.exec(t, `UPDATE outbox SET failures = '[{"at": "2026-01-02T03:04:05Z", "worker_id": null, "class": "temporary", "text": "gone <b>"}]' WHERE global_sequence = $1`, missing)
	server := b.serve(t, ui.Options{})
	page := call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", missing))
	wantContains(t, page, "temporary", "gone &lt;b&gt;")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "the events relation does not hold the event")
	wantLacks(t, page, "Outbox-Event-Id", "00000000-0000")
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", known)), "Outbox-Event-Id")
}

func TestPayloadIsShownToThoseWhoMay(t *testing.T) {
	t.Parallel()
	b := newPages(t, 1)
	sequence := b.one(t, `SELECT outbox_append('s', 'thing.done', '{"secret": 42, "html": "<script>"}')`)
	raw := b.one(t, `SELECT outbox_append_bytes('s', 'thing.done', '\x00ff01'::bytea)`)
	path := fmt.Sprintf("/messages/%d?payload=show", sequence)

	wantLacks(t, call(t, b.serve(t, ui.Options{}), http.MethodGet, path), "secret")
	readers := ui.Auth{Users: []ui.User{{Name: "ann", Password: "long enough", Access: ui.AccessReadOnly}}}
	wantLacks(t, call(t, b.serve(t, ui.Options{ShowPayload: true, Auth: readers}), http.MethodGet, path,
		func(r *http.Request) { r.SetBasicAuth("ann", "long enough") }), "secret")
	server := b.serve(t, ui.Options{ShowPayload: true})
	wantLacks(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", sequence)), "secret")
	page := call(t, server, http.MethodGet, path)
	wantContains(t, page, "JSON, indented", "&#34;secret&#34;: 42", "&lt;script&gt;")
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d?payload=show", raw)), "bytes, 3 bytes", "00 ff 01")
}

func TestMessagesAreMendedByForms(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	first, second, third, fourth := b.append(t, "a"), b.append(t, "b"), b.append(t, "c"), b.append(t, "d")
	b.kill(t, "no", first, second, third)
	b.fail(t, "later", fourth)
	server := b.serve(t, ui.Options{})

	ask := call(t, server, http.MethodGet, fmt.Sprintf("/messages/confirm?selected=requeue&dead=%d&failed=%d&state=dead&state=failed", first, fourth))
	wantStatus(t, ask, http.StatusOK)
	wantContains(t, ask, "Requeue 2 messages?", "1 dead, 1 failed", `action="../actions/messages"`, `name="state" value="failed"`)
	if n := b.one(t, `SELECT count(*) FROM outbox_audit`); n != 0 {
		t.Fatal("asking acted")
	}
	done := post(t, server, "/actions/messages", url.Values{
		"selected": {"requeue"}, "dead": {fmt.Sprint(first)}, "failed": {fmt.Sprint(fourth)}, "state": {"dead", "failed"}, "reason": {"mended"},
	})
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../messages?state=dead&state=failed&done=requeue&n=2" {
		t.Errorf("it leads to %q", to)
	}
	wantContains(t, call(t, server, http.MethodGet, "/messages?state=dead&state=failed&done=requeue&n=2"), `id="flash" role="status">2 messages were requeued.`)

	for name, refusal := range map[string]struct {
		status int
		form   url.Values
	}{
		"reason": {http.StatusBadRequest, url.Values{"selected": {"skip"}, "dead": {fmt.Sprint(second)}, "reason": {" "}}},
		"state":  {http.StatusBadRequest, url.Values{"selected": {"skip"}, "failed": {fmt.Sprint(second)}, "reason": {"x"}}},
		"not":    {http.StatusConflict, url.Values{"selected": {"discard"}, "dead": {fmt.Sprint(first)}, "reason": {"x"}}},
	} {
		again := post(t, server, "/actions/messages", refusal.form)
		wantStatus(t, again, refusal.status)
		wantContains(t, again, "Nothing was done.", name)
	}
	// One is changed before another is refused.
	fifth := b.append(t, "e")
	b.kill(t, "no", fifth)
	half := post(t, server, "/actions/messages", url.Values{"selected": {"requeue"}, "dead": {fmt.Sprint(fifth)}, "failed": {fmt.Sprint(third)}, "reason": {"x"}})
	wantStatus(t, half, http.StatusConflict)
	wantContains(t, half, "Not all was done.", fmt.Sprintf("%d is dead, not failed; nothing was changed. Before that, 1 were changed", third))
	// More are dead by now than were confirmed.
	again := post(t, server, "/actions/messages", url.Values{"all": {"discard"}, "state": {"dead"}, "reason": {"give up"}, "n": {"1"}})
	wantStatus(t, again, http.StatusConflict)
	wantContains(t, again, "2 match, not 1", `name="n" value="2"`, ">give up</textarea>")
	all := post(t, server, "/actions/messages", url.Values{"all": {"discard"}, "state": {"dead"}, "stream": {"b"}, "reason": {"give up"}, "n": {"1"}})
	wantStatus(t, all, http.StatusSeeOther)
	if to := all.Header.Get("Location"); to != "../messages?state=dead&stream=b&done=discard&n=1" {
		t.Errorf("it leads to %q", to)
	}
	wantRows(t, call(t, server, http.MethodGet, "/messages?state=dead"), third)
	one := post(t, server, "/actions/messages", url.Values{"selected": {"skip"}, "dead": {fmt.Sprint(third)}, "from": {"message"}, "reason": {"not needed"}})
	if to := one.Header.Get("Location"); to != fmt.Sprintf("../messages/%d?done=skip&n=1", third) {
		t.Errorf("it leads to %q", to)
	}
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/messages/%d", third)), "dead.skip", "not needed", "local")
	if n := b.one(t, `SELECT count(*) FROM outbox_audit WHERE actor = 'local'`); n != 5 {
		t.Errorf("the audit has %d rows, want 5", n)
	}
}

func TestReadOnlyNeitherOffersNorTakesActions(t *testing.T) {
	t.Parallel()
	b := newPages(t, 1)
	dead := b.append(t, "a")
	b.kill(t, "no", dead)
	server := b.serve(t, ui.Options{ReadOnly: true})
	form := url.Values{"selected": {"requeue"}, "dead": {fmt.Sprint(dead)}}
	for _, path := range []string{"/messages?state=dead", fmt.Sprintf("/messages/%d", dead), "/"} {
		page := call(t, server, http.MethodGet, path)
		wantContains(t, page, `id="read-only"`)
		wantLacks(t, page, "Requeue", "Discard", `type="checkbox" name=`, `method="post"`)
	}
	wantStatus(t, call(t, server, http.MethodGet, "/messages/confirm?"+form.Encode()), http.StatusForbidden)
	wantStatus(t, post(t, server, "/actions/messages", form), http.StatusForbidden)
	foreign := b.serve(t, ui.Options{})
	wantStatus(t, post(t, foreign, "/actions/messages", form, header("Sec-Fetch-Site", "cross-site")), http.StatusForbidden)
	if n := b.one(t, `SELECT count(*) FROM outbox_audit`); n != 0 {
		t.Error("something was changed")
	}
}

func TestWithoutOperatorThereAreNoMessages(t *testing.T) {
	t.Parallel()
	server := serve(t, ui.Options{})
	wantLacks(t, call(t, server, http.MethodGet, "/"), `href="./messages"`)
	wantStatus(t, call(t, server, http.MethodGet, "/messages"), http.StatusNotImplemented)
	wantStatus(t, post(t, server, "/actions/messages", url.Values{}), http.StatusNotImplemented)
}

func TestNobodyPutsWordsOnThePage(t *testing.T) {
	t.Parallel()
	b := newPages(t, 1)
	server := b.serve(t, ui.Options{})
	wantLacks(t, call(t, server, http.MethodGet, "/messages?done=call+me&n=1"), `id="flash"`, "call me")
	wantContains(t, call(t, server, http.MethodGet, "/messages?done=skip&n=-4&waiting=x"), "0 messages were skipped.")
}
