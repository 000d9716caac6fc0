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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui"
)

// rang counts the bells of workers.
type rang struct {
	mu    sync.Mutex
	bells []string
}

func (r *rang) ring(bell string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bells = append(r.bells, bell)
}

func (r *rang) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%q", r.bells)
}

// newRunner resizes an outbox of which the stream holds nothing, until stop.
func newRunner(t *testing.T, pool *pgxpool.Pool, patience time.Duration) (runner *resize.Runner, bells *rang, stop func()) {
	t.Helper()
	bells = &rang{}
	nc := natstest.Start(t, 1).Connect(t)
	runner = resize.NewRunner(resize.Config{
		Schema: "public", Timeout: patience, Logger: slog.New(slog.DiscardHandler),
		Connect: func(context.Context) (resize.Broker, error) {
			publisher, err := natspub.NewRehearsal(nc, natspub.RehearsalConfig{}, slog.New(slog.DiscardHandler))
			return resize.Broker{Publisher: publisher, Ring: bells.ring, Close: func() {}}, err
		},
	}, pool, func(ctx context.Context) (*pgxpool.Pool, error) { return pgxpool.NewWithConfig(ctx, pool.Config()) })
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { runner.Serve(ctx) })
	stop = func() {
		cancel()
		serving.Wait()
	}
	t.Cleanup(stop)
	return runner, bells, stop
}

// waiting is an outbox of four partitions with thirty events that wait, of which a worker holds two until let.
func waiting(t *testing.T) (o *outbox, let func()) {
	t.Helper()
	o = newOutbox(t, 4)
	for n := range 30 {
		o.append(t, fmt.Sprint("s-", n))
	}
	worker := uuid.Must(uuid.NewV7())
	o.join(t, worker, "busy", 1, 3)
	return o, func() {
		if _, err := newStores(t, o.pool).leases.Disown(context.WithoutCancel(t.Context()), worker); err != nil {
			t.Fatal(err)
		}
	}
}

// standing is how far a resize is, as the API tells.
type standing struct {
	Partitions, Returned int
	Resizing             bool
	Last                 *struct {
		State, Actor, Reason string
		From, To, Moved      int
		Error                string
	}
}

// untilResized waits for a resize that is as it should be.
func untilResized(t *testing.T, server *httptest.Server, is func(standing) bool) (s standing) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s = decode[standing](t, api(t, server, http.MethodGet, "/partitions/resize", "")); is(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it is %+v, last %+v", s, s.Last)
		}
	}
}

// The page tells what moves, asks why, and resizes; it tells how far that is while a worker keeps what it has, and what was done.
func TestPartitionsAreResizedFromThePage(t *testing.T) {
	t.Parallel()
	o, let := waiting(t)
	runner, bells, _ := newRunner(t, o.pool, time.Minute)
	server := o.serve(t, ui.Options{Resizes: runner})
	page := call(t, server, http.MethodGet, "/partitions/resize")
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, `id="ask"`, ">4 partitions<", "Nobody is changing it.", `data-every="5"`)
	wantContains(t, call(t, server, http.MethodGet, "/"), `href="./partitions/resize"`)
	for given, problem := range map[string]string{"many": `got &#34;many&#34;`, "0": "must lie between 1 and 32767, got 0", "32768": "32767, got 32768"} {
		wrong := call(t, server, http.MethodGet, "/partitions/resize/confirm?partitions="+given)
		wantStatus(t, wrong, http.StatusBadRequest)
		wantContains(t, wrong, `id="problem"`, problem, `value="`+given+`"`)
		wantLacks(t, wrong, "data-every")
	}
	wantContains(t, call(t, server, http.MethodGet, "/partitions/resize/confirm?partitions=4"), "There are 4 partitions already")

	asked := call(t, server, http.MethodGet, "/partitions/resize/confirm?partitions=7")
	wantStatus(t, asked, http.StatusOK)
	moves := one[int](t, o, `SELECT count(*) FROM outbox WHERE partition_key <> outbox_partition(stream_id, 7)`)
	if moves == 0 {
		t.Fatal("no row would move")
	}
	wantContains(t, asked, "Make 7 partitions of 4?", fmt.Sprintf("%d pending rows move", moves))
	form := url.Values{}
	for _, field := range regexp.MustCompile(`type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(asked.text, -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	again := post(t, server, "/actions/resize", form)
	wantStatus(t, again, http.StatusBadRequest)
	wantContains(t, again, "reason: is required", "Make 7 partitions of 4?")
	o.wantAudits(t)
	form.Set("reason", "more <b> workers")
	done := post(t, server, "/actions/resize", form)
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../partitions/resize?done=resize&n=7" {
		t.Errorf("it leads to %s", to)
	}
	untilResized(t, server, func(s standing) bool {
		return s.Resizing && s.Returned == 2 && s.Partitions == 4 && s.Last.State == "running"
	})
	page = call(t, server, http.MethodGet, "/partitions/resize?done=resize&n=7")
	wantContains(t, page, "The change to 7 partitions was begun.", "being changed to 7", "2 of 4 so far", `value="50"`, `data-every="1"`)
	// Whoever resizes, another monitor tells how far that is.
	other, _, _ := newRunner(t, o.pool, time.Minute)
	if s := decode[standing](t, api(t, o.serve(t, ui.Options{Resizes: other}), http.MethodGet, "/partitions/resize", "")); !s.Resizing || s.Returned != 2 || s.Last != nil {
		t.Errorf("another monitor says %+v", s)
	}
	let()
	s := untilResized(t, server, func(s standing) bool { return s.Last.State != "running" })
	if s.Resizing || s.Partitions != 7 || s.Last.State != "done" || s.Last.From != 4 || s.Last.To != 7 || s.Last.Moved != moves || s.Last.Actor != "local" {
		t.Errorf("it is %+v, last %+v", s, s.Last)
	}
	if n := one[int](t, o, `SELECT count(*) FROM outbox WHERE partition_key <> outbox_partition(stream_id, 7)`); n != 0 {
		t.Errorf("%d rows lie where they lay", n)
	}
	if bells.all() != `["" ".cluster"]` {
		t.Errorf("the bells that rang are %s", bells.all())
	}
	wantContains(t, call(t, server, http.MethodGet, "/partitions/resize"), ">7 partitions<", "4 → 7", `class="state done"`, "more &lt;b&gt; workers", "Nobody is changing it.")
	o.wantAudits(t, entry{"local", "partitions.resize", "more <b> workers"})
	if strings.Contains(o.log.String(), "more") || !strings.Contains(o.log.String(), "action=partitions.resize") {
		t.Errorf("the log says %s", o.log)
	}
	// The form is from before: nothing is done twice.
	late := post(t, server, "/actions/resize", form)
	wantStatus(t, late, http.StatusConflict)
	wantContains(t, late, "there are 7 partitions, not 4; nothing was changed", "There are 7 partitions already")
}

// The API does and says what the command does and says; what fails changes nothing, gives back what it took, and says what to do.
func TestResizesByTheAPI(t *testing.T) {
	t.Parallel()
	o, let := waiting(t)
	defer let()
	runner, _, stop := newRunner(t, o.pool, time.Second)
	server := o.serve(t, ui.Options{Resizes: runner})
	dry := decode[resize.Resized](t, api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2, "dry_run": true}`))
	if dry.From != 4 || dry.To != 2 || dry.Moved == 0 || !dry.DryRun {
		t.Errorf("the dry run says %+v", dry)
	}
	for body, field := range map[string]string{
		`{}`: "count", `{"count": 0}`: "count", `{"count": 32768, "dry_run": true}`: "count", `{"count": 2}`: "reason", `{"partitions": 2}`: "partitions", `{"count": "2"}`: "count",
	} {
		wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", body), http.StatusBadRequest, "invalid", field)
	}
	wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2, "expected_from": 5, "reason": "r"}`), http.StatusConflict, "count_changed", "expected_from")

	kept := wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2, "reason": "r"}`), http.StatusConflict, "wrong_state", "")
	if !strings.Contains(kept.Error.Message, "Nothing was changed") || !strings.Contains(kept.Error.Message, "--timeout") {
		t.Errorf("a worker that keeps its partitions: %s", kept.Error.Message)
	}
	wantContains(t, call(t, server, http.MethodGet, "/partitions/resize"), `class="state failed"`, "It failed.", "--timeout")
	if n := one[int](t, o, `SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL`); n != 2 {
		t.Errorf("%d partitions are held, want the worker's two", n)
	}
	o.exec(t, `UPDATE outbox_partitions SET paused_at = now() WHERE partition_key = 2`)
	wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2}`), http.StatusBadRequest, "invalid", "reason")
	if s := untilResized(t, server, func(standing) bool { return true }); s.Last == nil || s.Last.State != "failed" || !strings.Contains(s.Last.Error, "--timeout") {
		t.Errorf("after a refusal the last one is %+v", s.Last)
	}
	paused := wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2, "dry_run": true}`), http.StatusConflict, "wrong_state", "")
	if !strings.Contains(paused.Error.Message, "postrider partitions resume 2") {
		t.Errorf("of paused partitions it says %s", paused.Error.Message)
	}
	o.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	o.wantAudits(t)

	let()
	done := api(t, server, http.MethodPost, "/partitions/resize", `{"count": 2, "expected_from": 4, "reason": "r"}`)
	wantStatus(t, done, http.StatusOK)
	if got := decode[resize.Resized](t, done); got != (resize.Resized{From: 4, To: 2, Moved: dry.Moved}) {
		t.Errorf("it did %+v", got)
	}
	o.wantAudits(t, entry{"local", "partitions.resize", "r"})

	// A process that stops gives up what it is at.
	worker := uuid.Must(uuid.NewV7())
	o.join(t, worker, "busy", 1)
	if _, err := runner.Start(t.Context(), resize.Wanted{To: 9, Actor: "a", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	stop()
	if s := untilResized(t, server, func(s standing) bool { return s.Last.State != "running" }); s.Resizing || s.Partitions != 2 || !strings.Contains(s.Last.Error, "stopped") {
		t.Errorf("after the stop it is %+v, last %+v", s, s.Last)
	}
}

// Who may not resize is told so; nobody resizes while another one does.
func TestResizesAreRefused(t *testing.T) {
	t.Parallel()
	o, let := waiting(t)
	defer let()
	runner, _, _ := newRunner(t, o.pool, time.Minute)
	form := url.Values{"partitions": {"7"}, "expected_from": {"4"}, "reason": {"r"}}
	const command = `{"count": 7, "reason": "r"}`

	reader := o.serve(t, ui.Options{Resizes: runner, ReadOnly: true})
	page := call(t, reader, http.MethodGet, "/partitions/resize")
	wantStatus(t, page, http.StatusOK)
	wantLacks(t, page, `id="ask"`)
	wantStatus(t, call(t, reader, http.MethodGet, "/partitions/resize/confirm?partitions=7"), http.StatusForbidden)
	wantStatus(t, post(t, reader, "/actions/resize", form), http.StatusForbidden)
	wantProblem(t, api(t, reader, http.MethodPost, "/partitions/resize", command), http.StatusForbidden, "read_only", "")
	server := o.serve(t, ui.Options{Resizes: runner})
	wantStatus(t, post(t, server, "/actions/resize", form, header("Sec-Fetch-Site", "cross-site")), http.StatusForbidden)

	none := o.serve(t, ui.Options{})
	for _, got := range []answer{
		api(t, none, http.MethodPost, "/partitions/resize", command), api(t, none, http.MethodPost, "/partitions/resize", `{"count": 7, "dry_run": true}`),
		api(t, none, http.MethodGet, "/partitions/resize", ""),
	} {
		if p := wantProblem(t, got, http.StatusNotImplemented, "operator_not_configured", ""); !strings.Contains(p.Error.Message, "postrider partitions resize") {
			t.Errorf("it says %s", p.Error.Message)
		}
	}
	wantContains(t, call(t, none, http.MethodGet, "/partitions/resize"), "postrider partitions resize")
	wantLacks(t, call(t, none, http.MethodGet, "/"), "partitions/resize")

	// A worker's role may act on messages and lacks the rights of the tables' owner.
	name := "monitor_" + strings.ToLower(rand.Text())
	o.exec(t, strings.ReplaceAll(`CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
		REVOKE UPDATE ON outbox_settings FROM {role}; GRANT UPDATE (generation) ON outbox_settings TO {role}`, "{role}", name))
	role := pgtest.PoolAs(t, o.address, name)
	denied, _, _ := newRunner(t, role, time.Minute)
	composed, err := ui.Compose(t.Context(), ui.ServerConfig{Options: ui.Options{Resizes: denied, Logger: slog.New(slog.NewTextHandler(o.log, nil))}}, o.source, o.operator(t, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, api(t, serveHandler(t, composed.Handler()), http.MethodPost, "/partitions/resize", command), http.StatusNotImplemented, "operator_not_configured", "")
	if !strings.Contains(o.log.String(), `without UPDATE (partition_count, generation, frozen_at, frozen_by, resized_at, resized_delivery) ON \"public\".outbox_settings"`) {
		t.Errorf("the log says %s", o.log)
	}
	o.exec(t, `DROP OWNED BY `+name)
	o.exec(t, `DROP ROLE `+name)

	busy := func(what string) {
		t.Helper()
		got := wantProblem(t, api(t, server, http.MethodPost, "/partitions/resize", command), http.StatusConflict, "wrong_state", "")
		if !strings.Contains(got.Error.Message, "Somebody else is changing the partitions") {
			t.Errorf("%s: %s", what, got.Error.Message)
		}
		wantStatus(t, post(t, server, "/actions/resize", form), http.StatusConflict)
	}
	thaw, err := lease.Freeze(t.Context(), o.pool, "public", uuid.Must(uuid.NewV7()), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	busy("while a command resizes")
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Start(t.Context(), resize.Wanted{To: 7, Actor: "a", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	busy("while this monitor resizes")
	o.wantAudits(t)
	let()
	untilResized(t, server, func(s standing) bool { return s.Last.State == "done" && s.Partitions == 7 })
}

// Where events wait for a resize the overview leads to the page that tells how far it is, if there is one.
func TestTheOverviewLeadsToAResize(t *testing.T) {
	t.Parallel()
	s := cluster(4)
	s.Frozen, s.Partitions[1].Owner, s.Partitions[1].Pending = true, uuid.Nil, 3
	runner, _, _ := newRunner(t, pgtest.Pool(t, pgtest.Migrated(t, 4)), time.Minute)
	const link = `<a href="./partitions/resize">How far it is</a>`
	wantContains(t, call(t, serve(t, ui.Options{Source: always(s), Resizes: runner}), http.MethodGet, "/"), `id="o-resizing"`, link)
	without := call(t, serve(t, ui.Options{Source: always(s)}), http.MethodGet, "/")
	wantContains(t, without, `id="o-resizing"`)
	wantLacks(t, without, link)
}
