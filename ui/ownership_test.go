package ui_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// history is what the API tells of ownership.
type history struct {
	Begins  *time.Time
	Changes []struct {
		ID       int64
		Kind     string
		From, To *struct {
			ID       uuid.UUID `json:"worker_id"`
			Hostname string
		}
		LeaseUntil *time.Time `json:"lease_until"`
		Partitions []int
		Epochs     []int64 `json:"lease_epochs"`
	}
	Next *int64
}

// changeHands has the first of two workers take partitions 0 to 2, give 1 to the second
// and die; the second takes the rest over. Then both are gone.
func (o *outbox) changeHands(t *testing.T) (one, two uuid.UUID) {
	t.Helper()
	leases := newStores(t, o.pool).leases
	one, two = uuid.UUID{15: 1}, uuid.UUID{15: 2}
	for id, host := range map[uuid.UUID]string{one: "one", two: "two"} {
		o.exec(t, `INSERT INTO outbox_workers (worker_id, hostname, heartbeat_until) VALUES ($1, $2, clock_timestamp())`, id, host)
	}
	take := func(id uuid.UUID, partitions ...partition.ID) []*lease.Lease {
		t.Helper()
		held, err := leases.Acquire(t.Context(), id, time.Minute, partitions)
		if err != nil || len(held) != len(partitions) {
			t.Fatalf("%d of %d partitions were taken: %v", len(held), len(partitions), err)
		}
		return held
	}
	held := take(one, 0, 1, 2)
	if _, err := leases.Release(t.Context(), one, held[1:2]); err != nil {
		t.Fatal(err)
	}
	take(two, 1)
	o.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '3 seconds' WHERE lease_owner = $1`, one)
	take(two, 0, 2)
	o.exec(t, `DELETE FROM outbox_workers`)
	return one, two
}

// Who had which partition is told by a monitor that was not there, of workers that are
// gone.
func TestOwnershipIsTold(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	ask := func(query string) history {
		t.Helper()
		got := api(t, serve(t, ui.Options{Source: o.source}), http.MethodGet, "/ownership"+query, "") // a new process each time
		wantStatus(t, got, http.StatusOK)
		return decode[history](t, got)
	}
	if seen := ask(""); seen.Begins != nil || len(seen.Changes) != 0 || seen.Next != nil {
		t.Errorf("in the beginning: %+v", seen)
	}
	one, two := o.changeHands(t)
	seen := ask("")
	var words []string
	for _, c := range seen.Changes {
		from, to := "nobody", "nobody"
		if c.From != nil {
			from = c.From.Hostname
		}
		if c.To != nil {
			to = c.To.Hostname
		}
		words = append(words, fmt.Sprint(c.Kind, " ", from, " ", to, " ", c.Partitions, " ", c.Epochs))
	}
	want := []string{"taken-over one two [0 2] [2 2]", "moved one two [1] [2]", "released one nobody [1] [1]", "taken nobody one [0 1 2] [1 1 1]"}
	if strings.Join(words, ", ") != strings.Join(want, ", ") {
		t.Errorf("it tells %q, want %q", words, want)
	}
	over := seen.Changes[0]
	if over.From.ID != one || over.To.ID != two || over.LeaseUntil == nil || seen.Begins == nil {
		t.Errorf("taken over: %+v since %v", over, seen.Begins)
	}
	if c := ask("?partition=1").Changes; len(c) != 3 || c[0].Kind != "moved" || c[2].Kind != "taken" {
		t.Errorf("of one partition: %+v", c)
	}
	page := ask("?limit=3")
	if len(page.Changes) != 3 || page.Next == nil {
		t.Fatalf("the first page is %+v", page)
	}
	if rest := ask(fmt.Sprintf("?limit=3&after=%d", *page.Next)); len(rest.Changes) != 1 || rest.Next != nil || rest.Changes[0].Kind != "taken" {
		t.Errorf("the second page is %+v", rest)
	}
	o.exec(t, `UPDATE outbox_ownership SET changed_at = '2026-11-23T03:00:00Z'::timestamptz + id * interval '1 minute'`)
	if c := ask("?partition=1&until=2026-11-23T03:02:30Z&limit=1").Changes; len(c) != 1 || c[0].Kind != "released" {
		t.Errorf("the last change before a time: %+v", c)
	}
	if c := ask("?since=2026-11-23T03:04:00Z").Changes; len(c) != 1 || c[0].Kind != "taken-over" {
		t.Errorf("since a time: %+v", c)
	}
	for query, field := range map[string]string{"partition=x": "partition", "since=soon": "since", "until=-1h": "until"} {
		wantProblem(t, api(t, serve(t, ui.Options{Source: o.source}), http.MethodGet, "/ownership?"+query, ""), http.StatusBadRequest, "invalid", field)
	}
}

// The pages show the same: the overview, a partition's story, and the history by
// itself.
func TestPagesTellOfOwnership(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	o.changeHands(t)
	server := o.serve(t, ui.Options{})
	for path, parts := range map[string][]string{
		"/":                                     {"taken over", "its lease ended", "one", "two", `href="./ownership"`},
		"/partitions/1":                         {"moved", "released", `ownership?partition=1"`, "epoch 2"},
		"/ownership":                            {"taken over", "moved", "released", "The history begins", "0, 2", `id="timeline"`, `aria-label="Owners of 4 partitions`, `<path class="nobody"`, "two</bdi>"},
		"/ownership?partition=1":                {"moved", "epoch 2", `value="1"`},
		"/ownership?partition=3":                {"No change matches.", `aria-label="Owners of 1 partition from`},
		"/ownership?until=2020-01-01T00:00:00Z": {"No change matches."},
	} {
		got := call(t, server, http.MethodGet, path)
		wantStatus(t, got, http.StatusOK)
		wantContains(t, got, parts...)
		if strings.Contains(got.text, "this process") {
			t.Errorf("%s tells of its process", path)
		}
	}
	if got := call(t, server, http.MethodGet, "/ownership?partition=1"); strings.Contains(got.text, "taken over") {
		t.Error("the history of one partition tells of another")
	}
	wantStatus(t, call(t, server, http.MethodGet, "/ownership?partition=x"), http.StatusBadRequest)
	for n := range 60 { // more than a page
		o.exec(t, `INSERT INTO outbox_ownership (kind, partition_keys, lease_epochs) VALUES ('taken', ARRAY[$1::smallint], '{1}')`, n)
	}
	first := call(t, server, http.MethodGet, "/ownership?since=1h")
	wantContains(t, first, "Older →</a>", "since=1h")
	_, older, _ := strings.Cut(first.text, "ownership?after=")
	older, _, _ = strings.Cut(older, `"`)
	second := call(t, server, http.MethodGet, "/ownership?after="+strings.ReplaceAll(older, "&amp;", "&"))
	wantContains(t, second, "← Newest</a>", "taken over")
	wantLacks(t, second, `id="timeline"`) // it is on the first page
}

// A monitor that cannot read the history shows the rest, and says so.
func TestWithoutAHistoryTheRestIsShown(t *testing.T) {
	t.Parallel()
	source := always(cluster(4))
	source.unread = errors.New("permission denied")
	server := serve(t, ui.Options{Source: source})
	for _, path := range []string{"/", "/partitions/0"} {
		got := call(t, server, http.MethodGet, path)
		wantStatus(t, got, http.StatusOK)
		wantContains(t, got, "They could not be read.")
	}
	wantProblem(t, api(t, server, http.MethodGet, "/ownership", ""), http.StatusServiceUnavailable, "database_failed", "")
	got := api(t, server, http.MethodGet, "/partitions/0", "")
	wantStatus(t, got, http.StatusOK)
	wantContains(t, got, `"ownership":null`)
}
