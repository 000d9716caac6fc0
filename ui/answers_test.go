package ui_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/ui"
)

// Every operation of openapi.yaml answers as it says there: when it is taken, and
// when it is refused for each of the reasons that all of them have.
func TestEveryOperationAnswersAsDocumented(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	worker := uuid.UUID{15: 1}
	o.join(t, worker, "one", 0, 1)
	o.kill(t, "e", o.append(t, "a"), o.append(t, "b"), o.append(t, "c"))
	bearer := header("Authorization", "Bearer t0ken")
	auth := ui.Auth{Tokens: []ui.Token{{Value: "t0ken", Name: "robot", Access: ui.AccessOperate}}}
	replays, err := replay.New(t.Context(), o.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replays.Create(t.Context(), replay.Spec{Selection: replay.Selection{All: true}, Rate: 1, Actor: "robot"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	resizes, _, _ := newRunner(t, o.pool, time.Minute)
	server := o.serve(t, ui.Options{Replays: replays, Resizes: resizes, Auth: auth, ShowPayload: true, Environment: "test", AllowedHosts: []string{"outbox.example.org"}})
	requests := map[string][2]string{ // path and body by operation
		"openapi": {"/openapi.yaml"}, "summary": {"/summary"}, "workers": {"/workers"}, "partitions": {"/partitions"}, "partition": {"/partitions/0"},
		"resizing": {"/partitions/resize"}, "resizePartitions": {"/partitions/resize", `{"count": 4, "dry_run": true}`},
		"messages": {"/messages?state=dead&limit=1"}, "message": {"/messages/1"}, "payload": {"/messages/1/payload"},
		"causes": {"/messages/causes?topic=default"}, "topics": {"/topics"},
		"throughput": {"/throughput"}, "ownership": {"/ownership?limit=1"}, "audit": {"/audit?limit=1"},
		"drainWorker":     {"/workers/" + worker.String() + "/drain", `{"reason": "r"}`},
		"undrainWorker":   {"/workers/" + worker.String()[30:] + "/undrain", `{"reason": "r"}`},
		"pausePartitions": {"/partitions/pause", `{"partitions": [1], "reason": "r"}`}, "resumePartitions": {"/partitions/resume", `{"all": true}`},
		"requeueMessages": {"/messages/requeue", `{"sequences": [1], "reason": "r"}`},
		"skipMessages":    {"/messages/skip", `{"filter": {"stream": "b"}, "expected_count": 1, "reason": "r"}`},
		"listReplays":     {"/replays?limit=1"}, "showReplay": {"/replays/1"}, "cancelReplay": {"/replays/1/cancel", `{"reason": "r"}`},
		"startReplay":     {"/replays", `{"all": true, "dry_run": true}`},
		"discardMessages": {"/messages/discard", `{"all": true, "dry_run": true, "reason": "r"}`},
	}
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range c.operations {
		if op.id == "events" {
			continue // it does not end
		}
		request, ok := requests[op.id]
		if !ok {
			t.Errorf("%s is not tried", op.id)
			continue
		}
		path, body := request[0], request[1]
		question := path + "?"
		if strings.Contains(path, "?") {
			question = path + "&"
		}
		wantStatus(t, api(t, server, op.method, path, body, bearer), http.StatusOK)
		wantProblem(t, api(t, server, op.method, question+"nonsense=1", body, bearer), http.StatusBadRequest, "invalid", "nonsense")
		wantProblem(t, api(t, server, op.method, path, body), http.StatusUnauthorized, "unauthorized", "")
	}
	wantProblem(t, api(t, server, http.MethodGet, "/events?nonsense=1", "", bearer), http.StatusBadRequest, "invalid", "nonsense")
	o.wantAudits(t, entry{"robot", "replay.create", ""}, entry{"robot", "replay.cancel", "r"}, entry{"robot", "worker.drain", "r"}, entry{"robot", "partition.pause", "r"}, entry{"robot", "dead.requeue", "r"},
		entry{"robot", "partition.resume", ""}, entry{"robot", "dead.skip", "r"}, entry{"robot", "worker.undrain", "r"})

	strangers, stale := o.serve(t, ui.Options{AllowedHosts: []string{"outbox.example.org"}}), serve(t, ui.Options{Source: &scripted{next: noSnapshot}})
	for _, op := range c.operations {
		request := requests[op.id]
		if op.id == "events" {
			request[0] = "/events"
		}
		wantProblem(t, api(t, strangers, op.method, request[0], request[1], host("evil.example.org")), http.StatusMisdirectedRequest, "host_not_allowed", "")
		if _, known := op.responses["503"]; known && op.tag == "cluster" && op.id != "events" {
			wantProblem(t, api(t, stale, op.method, request[0], request[1]), http.StatusServiceUnavailable, "snapshot_unavailable", "")
		}
	}
}

func noSnapshot(context.Context) (ui.Snapshot, error) {
	return ui.Snapshot{}, errors.New("no database")
}

// The stream's events are summaries as the document has them.
func TestTheStreamIsDocumented(t *testing.T) {
	t.Parallel()
	server := newOutbox(t, 4).serve(t, ui.Options{})
	response, lines := stream(t, server.URL)
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, answer{Response: response}, "")
	c.fits(t, "events", "/components/schemas/Summary", nextData(t, lines))
	lone := serve(t, ui.Options{MaxStreams: 1})
	_, lines = stream(t, lone.URL)
	nextData(t, lines)
	wantProblem(t, api(t, lone, http.MethodGet, "/events", ""), http.StatusServiceUnavailable, "streams_unavailable", "")
}

func nextData(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data
		}
	}
}

// What an action and a look leave in the log: who and how many, but neither
// reasons nor filters, and no secrets.
func TestTheLogHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	o.kill(t, "e", o.append(t, "a"), o.append(t, "b"))
	o.exec(t, `ALTER TABLE outbox_audit ADD CONSTRAINT never CHECK (action <> 'dead.discard')`)
	auth := ui.Auth{
		Users:  []ui.User{{Name: "ann", Password: "pl4nted-p", Access: ui.AccessOperate}},
		Tokens: []ui.Token{{Value: "pl4nted-t", Access: ui.AccessOperate}},
	}
	server := o.serve(t, ui.Options{Auth: auth})
	as := header("Authorization", "Bearer pl4nted-t")
	for _, body := range []string{
		`{"sequences": [1], "reason": "pl4nted"}`, `{"filter": {"error_contains": "pl4nted"}, "reason": "pl4nted"}`, `{"pl4nted": 1}`,
		`{"filter": {"id": "pl4nted"}}`, `{"filter": {"since": "pl4nted"}}`, `{"sequences": [77], "reason": "pl4nted"}`,
		`{"all": true, "state": "pl4nted"}`,
	} {
		api(t, server, http.MethodPost, "/messages/skip", body, as)
	}
	got := api(t, server, http.MethodPost, "/messages/discard", `{"all": true, "reason": "pl4nted"}`, as)
	wantProblem(t, got, http.StatusServiceUnavailable, "database_failed", "")
	api(t, server, http.MethodGet, "/messages?stream=pl4nted&state=pl4nted", "", as)
	api(t, server, http.MethodGet, "/messages/1?token=pl4nted-t", "")
	api(t, server, http.MethodGet, "/summary", "", func(r *http.Request) { r.SetBasicAuth("ann", "pl4nted-x") })
	log := o.log.String()
	if at := strings.Index(log, "pl4nted"); at >= 0 {
		t.Errorf("the log holds …%s", log[max(0, at-300):at+20])
	}
	for _, want := range []string{
		`msg="monitor action" actor="token 1" action=messages.skip dry_run=false count=1`,
		`msg="monitor action failed" actor="token 1" action=messages.discard`, `error="refused: sequence"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	password := strings.SplitN(strings.SplitN(o.address, "@", 2)[0], ":", 3)
	if secret := password[len(password)-1]; len(password) == 3 && secret != "" && strings.Contains(log, secret+"@") {
		t.Error("the log holds the DSN")
	}
	if n := one[int](t, o, fmt.Sprintf(`SELECT count(*) FROM outbox_audit WHERE reason = '%s' AND actor = 'token 1'`, "pl4nted")); n != 1 {
		t.Errorf("the audit holds %d reasons, want 1", n)
	}
}
