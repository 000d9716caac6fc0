package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// ask sends a request to a worker's monitor and returns the status and the body.
func ask(t *testing.T, w *clustertest.Worker, method, path, body string, edit ...func(*http.Request)) (int, string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), method, w.Monitor(t)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for _, change := range edit {
		change(request)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func read[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// wantDraining wants list and API to show one worker as draining, without
// partitions, and the others as active.
func wantDraining(t *testing.T, c *clustertest.Cluster, drained *clustertest.Worker, asked *clustertest.Worker, members int) {
	t.Helper()
	type member struct {
		ID      uuid.UUID `json:"worker_id"`
		State   string    `json:"state"`
		Owned   int       `json:"owned"`
		Desired int       `json:"desired"`
		Since   *string   `json:"drain_requested_at"`
	}
	status, body := ask(t, asked, http.MethodGet, "/api/v1/workers", "")
	if status != http.StatusOK {
		t.Errorf("the API answers %d: %s", status, body)
	}
	listed, served := read[[]member](t, operate(t, c, "workers", "--json")), read[struct{ Workers []member }](t, body).Workers
	for what, list := range map[string][]member{"workers": listed, "API": served} {
		if len(list) != members {
			t.Errorf("%s: %d members, want %d: %+v", what, len(list), members, list)
		}
		for _, m := range list {
			draining := m.ID == drained.ID
			if (m.State == "draining") != draining || (m.Since != nil) != draining {
				t.Errorf("%s: a member is %+v", what, m)
			}
			if draining && m.Owned+m.Desired != 0 {
				t.Errorf("%s: the draining one is %+v", what, m)
			}
		}
	}
	if table := operate(t, c, "workers"); strings.Count(table, "draining") != 1 {
		t.Errorf("the table is\n%s", table)
	}
}

// A worker that is drained hands its partitions to the others while events flow,
// takes none back whoever comes and goes, and takes part again when it was
// started anew.
func TestADrainedWorkerHandsOver(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Flags: []string{"--http-addr=127.0.0.1:0"}})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 300)
	drained, rest := workers[1], []*clustertest.Worker{workers[0], workers[2]}
	id := drained.ID.String()

	if got, want := operate(t, c, "workers", "drain", id, "--dry-run"), "would ask "+id+" to drain\n"; got != want {
		t.Errorf("a dry run says %q, want %q", got, want)
	}
	wantShares(t, c, workers, 22, 21, 21)
	got := operate(t, c, "workers", "drain", id, "--reason", "the machine is being repaired", "--actor", "ann", "--json")
	if want := fmt.Sprintf(`{"action":"drain","worker_id":%q,"requested":true,"active_others":2,"dry_run":false}`, id) + "\n"; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	took := c.WaitShared(t, rest...)
	t.Logf("the others share everything after %s", took)
	if most := 4 * time.Second; took > most { // a look each second, and the handover
		t.Errorf("the handover took %s, want less than %s", took, most)
	}
	wantShares(t, c, rest, 32, 32)
	drained.WaitTick(t, "it owns nothing", func(k clustertest.Tick) bool { return len(k.Owned) == 0 && len(k.Desired) == 0 })
	wantDraining(t, c, drained, rest[0], 3)
	if got, want := operate(t, c, "workers", "drain", id), id+" is draining already\n"; got != want {
		t.Errorf("asked again it says %q, want %q", got, want)
	}
	load.WaitCommitted(t, 300)

	// It takes nothing when another comes, nor when one goes.
	joined := c.Start(t, 1)[0]
	rest = append(rest, joined)
	c.WaitShared(t, rest...)
	wantShares(t, c, workers[1:2], 0)
	rest[0].Signal(t, syscall.SIGTERM)
	c.WaitShared(t, rest[1:]...)
	rest[0].Exit(t)
	wantShares(t, c, workers[1:2], 0)
	wantDraining(t, c, drained, joined, 3)
	load.WaitCommitted(t, 300)

	// The drain is taken back, by the end of the id, as pages show it.
	if got, want := operate(t, c, "workers", "undrain", id[30:], "--actor", "ann"), id+" takes part again\n"; got != want {
		t.Errorf("undrain says %q, want %q", got, want)
	}
	c.WaitShared(t, append(rest[1:], drained)...)
	if got, want := operate(t, c, "workers", "undrain", id), "nobody has asked "+id+" to drain\n"; got != want {
		t.Errorf("undrain again says %q, want %q", got, want)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE action = 'worker.undrain' AND actor = 'ann'`); n != 1 {
		t.Errorf("the audit holds %d of them, want 1", n)
	}
	load.WaitCommitted(t, 300)

	drained.Signal(t, syscall.SIGTERM)
	wantGone(t, c, drained)
	again := append(rest[1:], c.Start(t, 1)...)
	c.WaitShared(t, again...)
	c.Verify(t)
	const audited = `SELECT count(*) FROM outbox_audit WHERE action = 'worker.drain' AND actor = 'ann' AND reason = 'the machine is being repaired'`
	if n := c.Count(t, audited); n != 1 {
		t.Errorf("the audit holds %d drains, want 1", n)
	}
}

// The last worker can be drained, too; the answer says that nobody takes over.
func TestTheLastWorkerIsDrained(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4, Flags: []string{"--http-addr=127.0.0.1:0"}})
	w := c.Start(t, 1)[0]
	c.WaitShared(t, w)
	status, body := ask(t, w, http.MethodPost, "/api/v1/workers/"+w.ID.String()+"/drain", `{"reason": "over"}`)
	if r := read[struct {
		Requested bool
		Others    int `json:"active_others"`
	}](t, body); status != http.StatusOK || !r.Requested || r.Others != 0 {
		t.Errorf("%d: %s", status, body)
	}
	w.WaitTick(t, "it owns nothing", func(k clustertest.Tick) bool { return len(k.Owned) == 0 })
	if n := c.Count(t, `SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL`); n != 0 {
		t.Errorf("%d partitions are still leased", n)
	}
	wantDraining(t, c, w, w, 1)
	if said := operate(t, c, "workers", "drain", w.ID.String(), "--dry-run"); !strings.Contains(said, "no other worker is active") {
		t.Errorf("it says %q", said)
	}
}

func TestDrainTells(t *testing.T) {
	t.Parallel()
	_, on := deadDatabase(t)
	none := uuid.NewString()
	for name, c := range map[string]complaint{
		"no id":          {on("workers", "drain"), exitRefused, []string{"worker"}},
		"no UUID":        {on("workers", "drain", "one"), exitRefused, []string{"WORKER", `"one"`}},
		"nobody":         {on("workers", "drain", uuid.Nil.String()), exitRefused, []string{"WORKER"}},
		"unknown worker": {on("workers", "drain", none), exitRefused, []string{"WORKER", "there is no worker " + none, "nothing was changed"}},
		"long reason":    {on("workers", "drain", none, "--reason", strings.Repeat("x", 2001)), exitRefused, []string{"--reason", "2000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}
