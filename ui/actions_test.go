package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/ui"
)

type acted struct {
	Action               string
	DryRun               bool `json:"dry_run"`
	Count, Waiting, Gone int64
}

// Each way ends a message's wait, one or several, by filter or all.
func TestMessagesAreMended(t *testing.T) {
	t.Parallel()
	for _, way := range []struct{ name, state string }{{"requeue", "pending"}, {"skip", "skipped"}, {"discard", "discarded"}} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, 4)
			server := o.serve(t, ui.Options{})
			var ids []int64
			for i := range 6 {
				ids = append(ids, o.append(t, fmt.Sprint("s-", i)))
			}
			o.kill(t, "too large", ids[0], ids[1], ids[2])
			o.kill(t, "poison", ids[3], ids[4])
			act := func(choice string) acted {
				t.Helper()
				got := api(t, server, http.MethodPost, "/messages/"+way.name, `{"reason": "because", `+choice+`}`)
				wantStatus(t, got, http.StatusOK)
				return decode[acted](t, got)
			}
			want := func(got acted, count int64, dry bool) {
				t.Helper()
				if got != (acted{Action: way.name, DryRun: dry, Count: count}) {
					t.Errorf("%+v, want %d, dry run %v", got, count, dry)
				}
			}
			want(act(`"all": true, "dry_run": true`), 5, true)
			want(act(`"sequences": [1, 2], "dry_run": true, "expected_count": 2`), 2, true)
			o.wantAudits(t)
			want(act(`"sequences": [1]`), 1, false)
			want(act(`"sequences": [2, 3], "expected_count": 2`), 2, false)
			want(act(`"filter": {"error_contains": "poison", "stream": "s-3", "since": "1h"}`), 1, false)
			want(act(`"all": true, "state": "dead"`), 1, false)
			want(act(`"all": true`), 0, false)
			for _, id := range ids[:5] {
				if got := o.state(t, id); got != way.state {
					t.Errorf("message %d is %s, want %s", id, got, way.state)
				}
			}
			if got := o.state(t, ids[5]); got != "pending" {
				t.Errorf("a message that was not chosen is %s", got)
			}
			e := entry{"local", "dead." + way.name, "because"}
			o.wantAudits(t, e, e, e, e)
		})
	}
}

func TestARequeueSaysWhatStillWaits(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{})
	first, second, failed := o.append(t, "s"), o.append(t, "s"), o.append(t, "other")
	o.kill(t, "e", first, second)
	o.fail(t, failed)
	got := api(t, server, http.MethodPost, "/messages/requeue", fmt.Sprintf(`{"sequences": [%d]}`, second))
	if r := decode[acted](t, got); r.Count != 1 || r.Waiting != 1 {
		t.Errorf("%+v, want one that waits", r)
	}
	got = api(t, server, http.MethodPost, "/messages/requeue", `{"state": "failed", "all": true}`)
	if r := decode[acted](t, got); r.Count != 1 || o.state(t, failed) != "pending" {
		t.Errorf("%+v; the failed one is %s", r, o.state(t, failed))
	}
	o.wantAudits(t, entry{"local", "dead.requeue", ""}, entry{"local", "failed.requeue", ""})
}

// A number that was confirmed and no longer holds changes nothing.
func TestTheCountMustHold(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{})
	dead := []int64{o.append(t, "a"), o.append(t, "b")}
	o.kill(t, "e", dead...)
	for _, choice := range []string{`"all": true`, `"filter": {"error_contains": "e"}`, `"all": true, "dry_run": true`} {
		for _, n := range []int{0, 1, 3} {
			body := fmt.Sprintf(`{"reason": "r", "expected_count": %d, %s}`, n, choice)
			p := wantProblem(t, api(t, server, http.MethodPost, "/messages/discard", body), http.StatusConflict, "count_changed", "expected_count")
			if !strings.Contains(p.Error.Message, fmt.Sprintf("2 match, not %d", n)) {
				t.Errorf("it says %q", p.Error.Message)
			}
		}
	}
	o.wantAudits(t)
	for _, id := range dead {
		if s := o.state(t, id); s != "dead" {
			t.Errorf("message %d is %s", id, s)
		}
	}
}

func TestPartitionsArePaused(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{})
	type result struct {
		Action             string
		DryRun             bool `json:"dry_run"`
		Changed, Unchanged []int
	}
	act := func(verb, body string) string {
		t.Helper()
		got := api(t, server, http.MethodPost, "/partitions/"+verb, body)
		wantStatus(t, got, http.StatusOK)
		r := decode[result](t, got)
		return fmt.Sprintf("%s %v %v %v", r.Action, r.DryRun, r.Changed, r.Unchanged)
	}
	paused := func() int {
		return one[int](t, o, `SELECT count(*) FROM outbox_partitions WHERE paused_at IS NOT NULL`)
	}
	for _, step := range []struct {
		verb, body, want string
		paused           int
	}{
		{"pause", `{"partitions": [1, 3], "reason": "repair", "dry_run": true}`, "pause true [1 3] []", 0},
		{"pause", `{"partitions": [3, 1, 1], "reason": "repair"}`, "pause false [1 3] []", 2},
		{"pause", `{"all": true}`, "pause false [0 2] [1 3]", 4},
		{"resume", `{"partitions": [0]}`, "resume false [0] []", 3},
		{"resume", `{"all": true}`, "resume false [1 2 3] [0]", 0},
		{"resume", `{"all": true}`, "resume false [] [0 1 2 3]", 0},
	} {
		if got := act(step.verb, step.body); got != step.want || paused() != step.paused {
			t.Errorf("%s %s: %s with %d paused, want %s with %d", step.verb, step.body, got, paused(), step.want, step.paused)
		}
	}
	o.wantAudits(t, entry{"local", "partition.pause", "repair"}, entry{"local", "partition.pause", ""},
		entry{"local", "partition.resume", ""}, entry{"local", "partition.resume", ""})
	wantProblem(t, api(t, server, http.MethodPost, "/partitions/pause", `{"partitions": [1, 4]}`), http.StatusNotFound, "not_found", "partition")
	if paused() != 0 {
		t.Error("a refused command paused something")
	}
}

func TestAWorkerIsDrained(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{})
	first, second, stale := uuid.UUID{15: 1}, uuid.UUID{15: 2}, uuid.UUID{15: 3}
	o.join(t, first, "one", 0, 1)
	o.join(t, second, "two", 2, 3)
	o.exec(t, `INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until) VALUES ($1, 'h', 1, 'v', clock_timestamp())`, stale)
	type result struct {
		Worker    uuid.UUID `json:"worker_id"`
		Requested bool
		Others    int  `json:"active_others"`
		DryRun    bool `json:"dry_run"`
	}
	drain := func(id uuid.UUID, body string) result {
		t.Helper()
		got := api(t, server, http.MethodPost, "/workers/"+id.String()+"/drain", body)
		wantStatus(t, got, http.StatusOK)
		return decode[result](t, got)
	}
	if r := drain(first, `{"dry_run": true}`); r != (result{first, true, 1, true}) {
		t.Errorf("dry run: %+v", r)
	}
	o.wantAudits(t)
	if r := drain(first, `{"reason": "repair"}`); r != (result{first, true, 1, false}) {
		t.Errorf("%+v", r)
	}
	if r := drain(first, `{}`); r.Requested {
		t.Errorf("asked again: %+v", r)
	}
	if r := drain(second, `{"dry_run": true}`); r.Others != 0 {
		t.Errorf("the last one: %+v", r)
	}
	o.wantAudits(t, entry{"local", "worker.drain", "repair"})
	wantProblem(t, api(t, server, http.MethodPost, "/workers/"+stale.String()+"/drain", `{}`), http.StatusConflict, "wrong_state", "worker")
	wantProblem(t, api(t, server, http.MethodPost, "/workers/"+uuid.NewString()+"/drain", `{}`), http.StatusNotFound, "not_found", "worker")
	for _, id := range []string{"one", uuid.Nil.String(), "1"} {
		wantProblem(t, api(t, server, http.MethodPost, "/workers/"+id+"/drain", `{}`), http.StatusBadRequest, "invalid", "worker")
	}
	type workers struct {
		Workers []struct {
			ID      uuid.UUID
			State   string
			Drained *string `json:"drain_requested_at"`
		}
	}
	type undone struct{ Requested bool }
	for _, want := range []bool{true, false} {
		got := api(t, server, http.MethodPost, "/workers/"+second.String()[30:]+"/undrain", `{"dry_run": true}`)
		if r := decode[undone](t, got); r.Requested {
			t.Errorf("taken back of one that was not asked: %+v", r)
		}
		if r := decode[undone](t, api(t, server, http.MethodPost, "/workers/"+first.String()+"/undrain", `{"reason": "back"}`)); r.Requested != want {
			t.Errorf("taken back: %+v, want %t", r, want)
		}
	}
	o.wantAudits(t, entry{"local", "worker.drain", "repair"}, entry{"local", "worker.undrain", "back"})
	drain(first, `{}`)
	// A new monitor has no snapshot yet.
	seen := decode[workers](t, api(t, o.serve(t, ui.Options{}), http.MethodGet, "/workers", "")).Workers
	if len(seen) != 3 || seen[0].Drained == nil || seen[1].Drained != nil || seen[2].State != "stale" {
		t.Errorf("the workers are %+v", seen)
	}
}

// A limit takes the first ones of those that a filter for a tenant chooses.
func TestALimitAndATenantChoose(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 1)
	server := o.serve(t, ui.Options{})
	other := o.append(t, "a")
	first, second, third := o.append(t, "b", `tenant_id => 'acme'`), o.append(t, "c", `tenant_id => 'acme'`), o.append(t, "d", `tenant_id => 'acme'`)
	o.kill(t, "e", other, first, second, third)
	if found := upTo(t, server, "?state=dead&tenant=acme"); fmt.Sprint(found) != fmt.Sprint([]int64{first, second, third}) {
		t.Errorf("the tenant's are %v", found)
	}
	for _, dry := range []bool{true, false} {
		got := api(t, server, http.MethodPost, "/messages/requeue", fmt.Sprintf(`{"filter": {"tenant": "acme"}, "limit": 2, "expected_count": 2, "dry_run": %t}`, dry))
		wantStatus(t, got, http.StatusOK)
		if a := decode[acted](t, got); a.Count != 2 {
			t.Errorf("dry run %v: %+v", dry, a)
		}
	}
	for sequence, want := range map[int64]string{other: "dead", first: "pending", second: "pending", third: "dead"} {
		if got := o.state(t, sequence); got != want {
			t.Errorf("message %d is %s, want %s", sequence, got, want)
		}
	}
	wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", `{"all": true, "limit": 0}`), http.StatusBadRequest, "invalid", "limit")
	wantProblem(t, api(t, server, http.MethodPost, "/messages/requeue", `{"filter": {"tenant": ""}}`), http.StatusBadRequest, "invalid", "tenant")
}
