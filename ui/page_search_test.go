package ui_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/ui"
)

// newSlowPages is a monitor on 200 events whose type takes a millisecond to read,
// so that a page that filters by it ends before it is full. The type of each
// fiftieth is rare.
func newSlowPages(t *testing.T) *outboxBundle {
	t.Helper()
	b := newPages(t, 2)
	b.exec(t, `CREATE FUNCTION slow(text) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM pg_sleep(0.001); RETURN $1; END'`)
	b.exec(t, `CREATE VIEW mine AS SELECT sequence, event_id, stream_id, stream_version, slow(event_type) AS event_type, payload, metadata,
		tenant_id, recorded_at FROM events`)
	b.exec(t, `SELECT outbox_append('s-' || n, CASE WHEN n % 50 = 10 THEN 'rare' ELSE 'thing.done' END, '{}') FROM generate_series(1, 200) AS n`)
	var err error
	if b.op, err = ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// follow asks for a list and for what goes on behind it, and returns how many
// pages there were and the sequences of the rows.
func follow(t *testing.T, get func(string) string, address string) (pages int, rows []string) {
	t.Helper()
	for pages = 1; ; pages++ {
		page := get(address)
		for _, part := range strings.Split(page, `<tr id="m-`)[1:] {
			sequence, _, _ := strings.Cut(part, `"`)
			rows = append(rows, sequence)
		}
		_, after, found := strings.Cut(page, `>Search on</a>`)
		if !found {
			return pages, rows
		}
		before := strings.TrimSuffix(page, after)
		_, href, _ := strings.Cut(before[strings.LastIndex(before, "<a "):], `href="`)
		href, _, _ = strings.Cut(href, `"`)
		address = "/" + strings.ReplaceAll(strings.TrimLeft(href, "./"), "&amp;", "&")
		if pages > 100 {
			t.Fatal("it does not end")
		}
	}
}

// A page that ends early says where it stands, and its link goes on from there.
func TestAListSaysHowFarItSearched(t *testing.T) {
	t.Parallel()
	b := newSlowPages(t)
	server := b.serve(t, ui.Options{})
	get := func(address string) string {
		a := call(t, server, http.MethodGet, address)
		wantStatus(t, a, http.StatusOK)
		return a.text
	}
	first := call(t, server, http.MethodGet, "/messages?type=rare")
	wantContains(t, first, "Searched down to sequence ", "data-search-down", `href="./messages?before=`)
	wantLacks(t, first, "data-every")
	pages, rows := follow(t, get, "/messages?type=rare")
	if fmt.Sprint(rows) != "[160 110 60 10]" || pages < 2 {
		t.Errorf("%d pages show %v", pages, rows)
	}
	pages, rows = follow(t, get, "/messages?type=rare&after=1")
	slices.SortFunc(rows, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if fmt.Sprint(rows) != "[10 60 110 160]" || pages < 2 {
		t.Errorf("upwards %d pages show %v", pages, rows)
	}
	wantContains(t, call(t, server, http.MethodGet, "/messages?type=nothing&after=1"), "Searched up to sequence ", "No message was found so far.")
	wantLacks(t, call(t, server, http.MethodGet, "/messages?stream=s-7"), "Searched")

	l := decode[struct {
		Messages   []any  `json:"messages"`
		Next       *int64 `json:"next"`
		LookedUpTo *int64 `json:"looked_up_to"`
	}](t, api(t, server, http.MethodGet, "/messages?type=nothing", ""))
	if len(l.Messages) != 0 || l.Next == nil || l.LookedUpTo == nil || *l.Next != *l.LookedUpTo {
		t.Errorf("%+v", l)
	}
}

// What was not counted to its end is acted on if there are that many or more.
func TestWhatIsNotCountedToItsEnd(t *testing.T) {
	t.Parallel()
	b := newSlowPages(t)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 1, last_error = 'e'`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, attempts, dead_at)
		SELECT 1000 + n, n % 2, 's', true, 1, now() FROM generate_series(1, 10200) AS n`)
	server := b.serve(t, ui.Options{})
	ask := call(t, server, http.MethodGet, "/messages/confirm?all=discard&state=dead")
	// 10,000 on a quick machine, fewer on one that takes longer than the page waits.
	wantContains(t, ask, "Discard at least ", `id="uncounted"`, `name="n" value="`, `name="more" value="1"`, "Discard all that match")
	wantLacks(t, ask, "10,400")
	moments := call(t, server, http.MethodGet, "/messages/confirm?all=discard&state=dead&since=1h") // what is confirmed later is of the same time
	wantContains(t, moments, `name="since" value="20`)
	wantLacks(t, moments, `value="1h"`)
	exact := url.Values{"all": {"discard"}, "state": {"dead"}, "reason": {"x"}, "n": {"10000"}}
	wantStatus(t, post(t, server, "/actions/messages", exact), http.StatusConflict)
	tooMany := url.Values{"all": {"discard"}, "state": {"dead"}, "reason": {"x"}, "n": {"20000"}, "more": {"1"}}
	again := post(t, server, "/actions/messages", tooMany)
	wantStatus(t, again, http.StatusConflict)
	wantContains(t, again, "10400 match, not 20000 or more")
	exact.Set("more", "1")
	done := post(t, server, "/actions/messages", exact)
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../messages?state=dead&done=discard&n=10400" {
		t.Errorf("it leads to %q", to)
	}
}

// The script goes on by itself until the page has its rows or the list ends.
func TestBrowserSearchesOn(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)
	b := newSlowPages(t)
	server := b.serve(t, ui.Options{})
	open(t, ctx, 1440, server.URL+"/messages?type=rare", "#content")
	must(t, chromedp.Do(ctx, chromedp.WaitVisible("#m-10"), chromedp.WaitNotPresent("[data-search-down]")))
	if got := evaluate[string](t, ctx, `[...document.querySelectorAll('tbody tr')].map((row) => row.id).join()`); got != "m-160,m-110,m-60,m-10" {
		t.Errorf("it shows %s", got)
	}
	if list := faults(); len(list) > 0 {
		t.Errorf("the browser complains: %v", list)
	}
}
