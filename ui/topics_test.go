package ui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/ui"
)

type topicsSeen struct {
	Topics, Types []struct {
		Name   string
		Rate   *float64 `json:"published_per_second"`
		Oldest *float64 `json:"oldest_pending_age_seconds"`
		Dead   *int64
	}
	Sampled *int64
	Span    *float64 `json:"span_seconds"`
}

// What is published, what waits and what is dead is told by topic and by type, in the API and on the page.
func TestTopicsAndTypes(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	for range 3 {
		o.publish(t, o.append(t, "p", `topic => 'busy & <b>'`))
	}
	o.kill(t, "e", o.append(t, "d", `topic => 'broken'`))
	o.append(t, "w", `topic => 'waiting'`)
	o.exec(t, `UPDATE outbox SET available_at = available_at - interval '1 hour' WHERE stream_id = 'w'`)
	server := o.serve(t, ui.Options{})
	var body topicsSeen
	for deadline := time.Now().Add(30 * time.Second); ; { // what waits is counted beside the first snapshots
		got := api(t, server, http.MethodGet, "/topics", "")
		wantStatus(t, got, http.StatusOK)
		if body = decode[topicsSeen](t, got); len(body.Topics) == 3 || time.Now().After(deadline) {
			break
		}
	}
	if len(body.Topics) != 3 || len(body.Types) != 1 || *body.Sampled != 3 || *body.Span != 60 {
		t.Fatalf("%+v", body)
	}
	busy, broken, waiting := body.Topics[0], body.Topics[1], body.Topics[2]
	if busy.Name != "busy & <b>" || *busy.Rate != 0.05 || *busy.Dead != 0 || busy.Oldest != nil {
		t.Errorf("the busy one: %+v", busy)
	}
	if broken.Name != "broken" || *broken.Rate != 0 || *broken.Dead != 1 {
		t.Errorf("the broken one: %+v", broken)
	}
	if waiting.Name != "waiting" || waiting.Oldest == nil || *waiting.Dead != 0 {
		t.Errorf("the waiting one: %+v", waiting)
	}
	if kind := body.Types[0]; kind.Name != "thing.done" || *kind.Rate != 0.05 || *kind.Dead != 1 {
		t.Errorf("the type: %+v", kind)
	}
	page := call(t, server, http.MethodGet, "/topics")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, "estimated from 3 events", "busy &amp; &lt;b&gt;", "0.05", `href="./messages/causes?topic=broken">1</a>`, `href="./messages?topic=waiting"`, "thing.done")
	wantLacks(t, page, "<b>")
	if strings.Index(page.text, "By topic") > strings.Index(page.text, "By type") {
		t.Error("the tables are not in their order")
	}
	o.exec(t, `ALTER TABLE outbox_deliveries RENAME TO away`)
	got := api(t, server, http.MethodGet, "/topics", "")
	wantStatus(t, got, http.StatusOK)
	if body = decode[topicsSeen](t, got); body.Sampled != nil || len(body.Topics) == 0 || body.Topics[0].Rate != nil {
		t.Errorf("where rates cannot be read: %+v", body)
	}
}

// Without an operator rates are not known, and beyond a hundred names the rest counts as one.
func TestManyTopicsWithoutAnOperator(t *testing.T) {
	t.Parallel()
	snapshot := cluster(1)
	snapshot.Named = &pgstore.Named{ByTopic: map[string]pgstore.Share{delivery.OtherName: {Dead: 2}}}
	for n := range 150 {
		snapshot.Named.ByTopic["t-"+strings.Repeat("x", n+1)] = pgstore.Share{Dead: int64(1000 - n), Oldest: time.Duration(n) * time.Second}
	}
	server := serve(t, ui.Options{Source: always(snapshot)})
	got := api(t, server, http.MethodGet, "/topics", "")
	wantStatus(t, got, http.StatusOK)
	body := decode[topicsSeen](t, got)
	if len(body.Topics) != 101 || body.Topics[0].Name != "t-x" || *body.Topics[0].Dead != 1000 || body.Sampled != nil || body.Topics[0].Rate != nil || len(body.Types) != 0 {
		t.Errorf("%d topics, %d types, the first %+v", len(body.Topics), len(body.Types), body.Topics[0])
	}
	if other := body.Topics[100]; other.Name != "other" || *other.Dead != 2+50*1000-(100+149)*25 || *other.Oldest != 149 {
		t.Errorf("the others: dead %d, oldest %v", *other.Dead, *other.Oldest)
	}
	wantContains(t, call(t, server, http.MethodGet, "/topics"), "Rates are not known", "all others")
	wantContains(t, call(t, serve(t, ui.Options{}), http.MethodGet, "/topics"), "has not been counted yet", "None was seen.")
}
