package ui_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/ui"
)

// thirty is an outbox with thirty published events of three streams, and a monitor that makes replays of them.
func thirty(t *testing.T, options ui.Options) (*outbox, *replay.Store, *httptest.Server) {
	t.Helper()
	o := newOutbox(t, 4)
	for n := range 30 {
		o.publish(t, o.append(t, fmt.Sprint("s-", n%3)))
	}
	store, err := replay.New(t.Context(), o.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	options.Replays = store
	return o, store, o.serve(t, options)
}

// serveReplays runs what was asked for until the test ends.
func serveReplays(t *testing.T, store *replay.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { store.Serve(ctx, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
}

// replayed is a replay as the API tells of it.
type replayed struct {
	ID          int64
	State       string
	Interrupted bool
	Selected    *int64
	Replayed    int64
	Rate        *float64
	Actor       string
	Reason      *string
	To          int64 `json:"to_sequence"`
}

// untilReplay waits for a replay that is as it should be.
func untilReplay(t *testing.T, server *httptest.Server, id int64, is func(replayed) bool) (r replayed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if r = decode[replayed](t, api(t, server, http.MethodGet, fmt.Sprint("/replays/", id), "")); is(r) {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it is %+v", r)
		}
	}
}

// The page counts, asks why, and makes a replay of what it counted, which is run by who serves; the page tells how far it is.
func TestEventsAreReplayedFromThePage(t *testing.T) {
	t.Parallel()
	o, store, server := thirty(t, ui.Options{})
	page := call(t, server, http.MethodGet, "/replays")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, `id="ask"`, "Nothing was replayed yet.", `name="rate" value="1000"`)
	wrong := call(t, server, http.MethodGet, "/replays/confirm?rate=1000&kind=range")
	wantStatus(t, wrong, http.StatusBadRequest)
	wantContains(t, wrong, `id="problem"`, "nothing is selected", `id="ask"`)
	wantLacks(t, wrong, "data-every")

	asked := call(t, server, http.MethodGet, "/replays/confirm?kind=range&stream=s-1&since=1h&rate=500")
	wantStatus(t, asked, http.StatusOK)
	wantContains(t, asked, "Replay 10 events?", "stream s-1", "up to sequence 30", "at most 500 a second")
	o.append(t, "s-1") // it is none of its business
	form := url.Values{}
	for _, field := range regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(asked.text, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	again := post(t, server, "/actions/replays", form)
	wantStatus(t, again, http.StatusBadRequest)
	wantContains(t, again, "it is for the audit", "Replay 10 events?")
	o.wantAudits(t)
	form.Set("reason", "a consumer lost <b> a day")
	done := post(t, server, "/actions/replays", form)
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../replays?done=replay&n=1" {
		t.Errorf("it leads to %s", to)
	}
	page = call(t, server, http.MethodGet, "/replays?done=replay&n=1")
	wantContains(t, page, "Replay 1 was asked for.", `class="state waiting"`, "not counted yet", "a consumer lost &lt;b&gt; a day", `data-every="2"`, "replays/1/cancel")

	serveReplays(t, store)
	r := untilReplay(t, server, 1, func(r replayed) bool { return r.State == "done" })
	if r.Replayed != 10 || *r.Selected != 10 || r.To != 30 || r.Actor != "local" {
		t.Errorf("it is %+v", r)
	}
	if n := one[int](t, o, `SELECT count(*) FROM outbox WHERE generation = 100 AND stream_id = 's-1'`); n != 10 {
		t.Errorf("%d events are queued", n)
	}
	page = call(t, server, http.MethodGet, "/replays")
	wantContains(t, page, "10 of 10", `value="100"`, `class="state done"`, `data-every="5"`)
	wantLacks(t, page, "replays/1/cancel")
	reason := "a consumer lost <b> a day"
	o.wantAudits(t, entry{"local", "replay.create", reason}, entry{"local", "replay.run", reason}, entry{"local", "replay.done", reason})
	if strings.Contains(o.log.String(), "lost") || !strings.Contains(o.log.String(), "action=replays.start") {
		t.Errorf("the log says %s", o.log)
	}
}

// A replay that nobody runs any more shows as one that waits, and whoever serves goes on with it; ended, it is ended for good.
func TestAReplayIsGoneOnWithAndEnded(t *testing.T) {
	t.Parallel()
	o, store, server := thirty(t, ui.Options{})
	start := func(body string) replayed {
		t.Helper()
		got := api(t, server, http.MethodPost, "/replays", body)
		wantStatus(t, got, http.StatusOK)
		return decode[replayed](t, got)
	}
	type plan struct {
		Selected int64
		To       int64 `json:"to_sequence"`
		DryRun   bool  `json:"dry_run"`
	}
	if p := decode[plan](t, api(t, server, http.MethodPost, "/replays", `{"all": true, "dry_run": true}`)); p != (plan{30, 30, true}) {
		t.Errorf("the dry run promises %+v", p)
	}
	o.wantAudits(t)
	killed := start(`{"all": true, "to_sequence": 30, "rate": 1000000, "expected_count": 30, "reason": "r"}`)
	// Its worker dies after nine of them.
	o.exec(t, `UPDATE outbox_replays SET state = 'running', runner = gen_random_uuid(), selected = 30, replayed = 9, position = 9, updated_at = clock_timestamp() - interval '31 s'`)
	wantContains(t, call(t, server, http.MethodGet, "/replays"), "9 of 30", `value="30"`, `class="state waiting"`)
	serveReplays(t, store)
	if r := untilReplay(t, server, killed.ID, func(r replayed) bool { return r.State == "done" }); r.Replayed != 30 {
		t.Errorf("it is %+v", r)
	}
	if n := one[int](t, o, `SELECT count(*) FROM outbox WHERE generation = 100`); n != 21 {
		t.Errorf("%d of the other 21 events are queued", n)
	}
	// Another number than was confirmed.
	wrong := start(`{"kind": "retry", "all": true, "expected_count": 3}`)
	untilReplay(t, server, wrong.ID, func(r replayed) bool { return r.State == "cancelled" })
	wantContains(t, call(t, server, http.MethodGet, "/replays"), "0 were selected, not 3 as was confirmed: nothing was replayed")

	slow := start(`{"topic": "default", "rate": 0.1}`) // one is dealt with at once, the next one in ten seconds
	asked := call(t, server, http.MethodGet, fmt.Sprintf("/replays/%d/cancel", slow.ID))
	wantContains(t, asked, fmt.Sprintf("End replay %d?", slow.ID), "It ends for good")
	cancel := url.Values{"action": {"cancel"}, "replay": {fmt.Sprint(slow.ID)}, "reason": {"the wrong day"}}
	done := post(t, server, "/actions/replays", cancel)
	wantStatus(t, done, http.StatusSeeOther)
	wantContains(t, call(t, server, http.MethodGet, "/replays?done=cancel&n=3"), "Replay 3 is ended.", `class="state cancelled"`)
	if last := o.audits(t); last[len(last)-1] != (entry{"local", "replay.cancel", "the wrong day"}) {
		t.Errorf("the audit says %v", last)
	}
	wantContains(t, post(t, server, "/actions/replays", cancel), "It has ended already: cancelled.")
	wantProblem(t, api(t, server, http.MethodPost, fmt.Sprintf("/replays/%d/cancel", slow.ID), `{}`), http.StatusConflict, "wrong_state", "")
	wantProblem(t, api(t, server, http.MethodPost, "/replays/99/cancel", `{}`), http.StatusNotFound, "not_found", "")
	wantProblem(t, api(t, server, http.MethodGet, "/replays/99", ""), http.StatusNotFound, "not_found", "")
	list := decode[struct{ Replays []replayed }](t, api(t, server, http.MethodGet, "/replays?limit=2", "")).Replays
	if len(list) != 2 || list[0].ID != slow.ID || list[1].ID != wrong.ID {
		t.Errorf("the list is %+v", list)
	}
	for body, field := range map[string]string{
		`{}`: "selection", `{"all": true, "stream": "s-1"}`: "selection", `{"stream": ""}`: "stream", `{"all": true, "rate": 0}`: "rate",
		`{"all": true, "rate": 0.01}`: "rate", `{"from_sequence": 0}`: "from_sequence", `{"from_sequence": 9, "to_sequence": 3}`: "to_sequence",
		`{"kind": "x", "all": true}`: "kind", `{"since": "yesterday"}`: "since", `{"streams": "s"}`: "streams", `{"stream": "nobody", "dry_run": true}`: "stream",
	} {
		wantProblem(t, api(t, server, http.MethodPost, "/replays", body), http.StatusBadRequest, "invalid", field)
	}
}

// Who may not replay is told so, and by whom it can be done.
func TestReplaysAreRefused(t *testing.T) {
	t.Parallel()
	o, store, server := thirty(t, ui.Options{ReadOnly: true})
	page := call(t, server, http.MethodGet, "/replays")
	wantStatus(t, page, http.StatusOK)
	wantLacks(t, page, `id="ask"`)
	wantStatus(t, call(t, server, http.MethodGet, "/replays/confirm?all=1"), http.StatusForbidden)
	wantStatus(t, post(t, server, "/actions/replays", url.Values{"all": {"1"}, "reason": {"r"}, "n": {"30"}}), http.StatusForbidden)
	wantProblem(t, api(t, server, http.MethodPost, "/replays", `{"all": true}`), http.StatusForbidden, "read_only", "")
	foreign := post(t, o.serve(t, ui.Options{Replays: store}), "/actions/replays", url.Values{"all": {"1"}, "reason": {"r"}}, header("Sec-Fetch-Site", "cross-site"))
	wantStatus(t, foreign, http.StatusForbidden)

	none := o.serve(t, ui.Options{})
	wantProblem(t, api(t, none, http.MethodPost, "/replays", `{"all": true}`), http.StatusNotImplemented, "operator_not_configured", "")
	wantStatus(t, call(t, none, http.MethodGet, "/replays"), http.StatusNotImplemented)

	// A worker's role may look at messages and act on them, and lacks an operator's rights to replay.
	name := "monitor_" + strings.ToLower(rand.Text())
	o.exec(t, strings.ReplaceAll(`CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
		REVOKE INSERT ON outbox_replays FROM {role}`, "{role}", name))
	role := pgtest.PoolAs(t, o.address, name)
	denied, err := replay.New(t.Context(), role, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	composed, err := ui.Compose(t.Context(), ui.ServerConfig{Options: ui.Options{Replays: denied, Logger: slog.New(slog.NewTextHandler(o.log, nil))}}, o.source, o.operator(t, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	half := serveHandler(t, composed.Handler())
	page = call(t, half, http.MethodGet, "/replays")
	wantContains(t, page, `id="denied"`, "lacks rights", "postrider replay", "Nothing was replayed yet.")
	wantLacks(t, page, `id="ask"`)
	wantProblem(t, api(t, half, http.MethodPost, "/replays", `{"all": true}`), http.StatusNotImplemented, "operator_not_configured", "")
	if !strings.Contains(o.log.String(), `without INSERT ON \"public\".outbox_replays`) {
		t.Errorf("the log says %s", o.log)
	}
	o.wantAudits(t)
	o.exec(t, `DROP OWNED BY `+name)
	o.exec(t, `DROP ROLE `+name)
}
