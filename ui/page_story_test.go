package ui_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// join registers a worker that holds these partitions.
func (b *outboxBundle) join(t *testing.T, id uuid.UUID, host string, partitions ...partition.ID) {
	t.Helper()
	s := newStores(t, b.pool)
	if err := s.workers.Beat(t.Context(), heartbeat.Worker{ID: id, Hostname: host, PID: 4711, Version: "1", State: heartbeat.Active}, ttl); err != nil {
		t.Fatal(err)
	}
	if len(partitions) == 0 {
		return
	}
	if held, err := s.leases.Acquire(t.Context(), id, ttl, partitions); err != nil || len(held) != len(partitions) {
		t.Fatalf("%d leases: %v", len(held), err)
	}
}

func TestPartitionTellsItsStory(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	b.join(t, uuid.UUID{15: 7}, "<i>host</i>", 0, 1)
	b.publish(t, b.append(t, "s & <t>"))
	dead := b.append(t, "s & <t>")
	n := b.one(t, `SELECT partition_key FROM outbox`)
	behind := b.append(t, "s & <t>")
	b.kill(t, "no <b>way</b>", dead)
	b.block(t, behind)
	server := b.serve(t, ui.Options{})

	page := call(t, server, http.MethodGet, fmt.Sprintf("/partitions/%d", n))
	wantStatus(t, page, http.StatusOK)
	wantContains(t, page, fmt.Sprintf("Partition %d", n), uuid.UUID{15: 7}.String(), "&lt;i&gt;host&lt;/i&gt;", "1 dead, until a person acts",
		"1 blocked behind an earlier event", "of 1 stream", fmt.Sprintf(`href="../messages/%d"`, dead), "s &amp; &lt;t&gt;", "no &lt;b&gt;way&lt;/b&gt;",
		fmt.Sprintf(`href="../messages?partition=%d&amp;state=dead"`, n), "Last deliveries", "Pause partition", fmt.Sprintf(`action="../partitions/%d/pause"`, n))
	wantLacks(t, page, "<i>host", "<b>way", "Nothing was done")
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/partitions/%d", 1-n)), "nothing waits here", "None.")
	wantStatus(t, call(t, server, http.MethodGet, "/partitions/2"), http.StatusNotFound)
	wantStatus(t, call(t, server, http.MethodGet, "/partitions/x"), http.StatusBadRequest)

	overview := call(t, server, http.MethodGet, "/")
	wantContains(t, overview, `id="o-dead"`, `id="o-blocked"`, "1 event of 1 stream waits behind", fmt.Sprintf(`href="./partitions/%d" data-row`, n),
		`href="./messages?state=dead"`, "Blocked streams", "1 event waits in it", `id="tile-latency"`, "from append to marked")
	bare := serve(t, ui.Options{Source: b.source})
	page = call(t, bare, http.MethodGet, fmt.Sprintf("/partitions/%d", n))
	wantStatus(t, page, http.StatusOK)
	wantLacks(t, page, `<form id="pause"`, "Last deliveries", "messages?partition")
	wantLacks(t, call(t, bare, http.MethodGet, "/"), "messages?state", "Drain…")
}

func TestPartitionIsPausedByForm(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	b.append(t, "s")
	n := b.one(t, `SELECT partition_key FROM outbox`)
	server := b.serve(t, ui.Options{})
	path := fmt.Sprintf("/partitions/%d", n)
	form := url.Values{"partition": {fmt.Sprint(n)}, "action": {"pause"}, "reason": {"a deploy"}}

	ask := call(t, server, http.MethodGet, path+"/pause")
	wantStatus(t, ask, http.StatusOK)
	wantContains(t, ask, fmt.Sprintf("Pause partition %d?", n), "1 event waits", `method="post" action="../../actions/partitions"`, `name="reason"`)
	if b.one(t, `SELECT count(*) FROM outbox_partitions WHERE paused_at IS NOT NULL`) != 0 {
		t.Error("the question paused the partition")
	}
	for path, status := range map[string]int{"/partitions/9/pause": http.StatusNotFound, "/partitions/x/pause": http.StatusBadRequest} {
		wantStatus(t, call(t, server, http.MethodGet, path), status)
	}
	done := post(t, server, "/actions/partitions", form)
	wantStatus(t, done, http.StatusSeeOther)
	to := fmt.Sprintf("../partitions/%d?done=pause&n=%d", n, n)
	if got := done.Header.Get("Location"); got != to {
		t.Errorf("it leads to %q, want %q", got, to)
	}
	wantContains(t, call(t, server, http.MethodGet, strings.TrimPrefix(to, "..")), fmt.Sprintf("Partition %d is paused.", n), "Resume partition", "paused since")
	wantContains(t, call(t, server, http.MethodGet, "/"), `id="o-paused"`)
	twice := call(t, server, http.MethodGet, path+"/pause")
	wantContains(t, twice, "paused already")
	wantLacks(t, twice, `action="../../actions/partitions"`)
	form.Set("action", "resume")
	wantStatus(t, post(t, server, "/actions/partitions", form), http.StatusSeeOther)
	wantContains(t, call(t, server, http.MethodGet, path), "Pause partition")
	wantContains(t, call(t, server, http.MethodGet, "/audit"), "partition.pause", "partition.resume", "a deploy", "local", fmt.Sprintf(`href="./partitions/%d"`, n))

	long := url.Values{"partition": {fmt.Sprint(n)}, "action": {"pause"}, "reason": {strings.Repeat("x", 100_000)}}
	again := post(t, server, "/actions/partitions", long)
	wantStatus(t, again, http.StatusBadRequest)
	wantContains(t, again, "Nothing was done.", `autocomplete="off">xxx`)
	wantLacks(t, again, "data-every")
	for _, wrong := range []url.Values{{"partition": {"x"}, "action": {"pause"}}, {"partition": {"0"}, "action": {"stop"}}, {}} {
		wantStatus(t, post(t, server, "/actions/partitions", wrong), http.StatusBadRequest)
	}
	wantStatus(t, post(t, server, "/actions/partitions", url.Values{"partition": {"9"}, "action": {"pause"}}), http.StatusNotFound)
	readers := b.serve(t, ui.Options{ReadOnly: true})
	wantStatus(t, post(t, readers, "/actions/partitions", form), http.StatusForbidden)
	wantStatus(t, call(t, readers, http.MethodGet, path+"/pause"), http.StatusForbidden)
	wantLacks(t, call(t, readers, http.MethodGet, path), `<form id="pause"`, "Pause partition")
}

// A worker without leases owns what nobody else holds, and stands in no table: nothing offers to drain it.
func TestAWorkerAloneIsNotDrained(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	other, alone := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	b.join(t, other, "other", 0)
	b.look(t, func() heartbeat.Worker {
		return heartbeat.Worker{ID: alone, Hostname: "alone", State: heartbeat.Active}
	})
	page := call(t, b.serve(t, ui.Options{}), http.MethodGet, "/")
	wantContains(t, page, fmt.Sprintf(`href="./workers/%s/drain"`, other), alone.String())
	wantLacks(t, page, fmt.Sprintf(`workers/%s/drain`, alone))
}

func TestWorkerIsDrainedByForm(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	first, second := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	b.join(t, first, "one", 0, 1)
	server := b.serve(t, ui.Options{})
	wantContains(t, call(t, server, http.MethodGet, "/"), fmt.Sprintf(`href="./workers/%s/drain"`, first))

	ask := call(t, server, http.MethodGet, fmt.Sprintf("/workers/%s/drain", first))
	wantStatus(t, ask, http.StatusOK)
	wantContains(t, ask, "Drain worker 000001?", "on <bdi>one</bdi>, pid 4711", "owns 2 partitions", "No other worker is active", `action="../../actions/workers"`)
	b.join(t, second, "two")
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/workers/%s/drain", first)), "1 other active worker takes")

	done := post(t, server, "/actions/workers", url.Values{"worker": {first.String()}, "reason": {"old kernel"}})
	wantStatus(t, done, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "../?done=drain" {
		t.Errorf("it leads to %q", to)
	}
	page := call(t, server, http.MethodGet, "/?done=drain")
	wantContains(t, page, "was asked to drain", "asked to drain <time")
	wantLacks(t, page, fmt.Sprintf("workers/%s/drain", first))
	wantContains(t, call(t, server, http.MethodGet, fmt.Sprintf("/workers/%s/drain", first)), "asked to drain before")
	wantContains(t, call(t, server, http.MethodGet, "/audit"), "worker.drain", "old kernel", first.String())

	wantContains(t, call(t, server, http.MethodGet, "/"), `action="./actions/workers"`, "Take back")
	undone := post(t, server, "/actions/workers", url.Values{"worker": {first.String()}, "action": {"undrain"}})
	wantStatus(t, undone, http.StatusSeeOther)
	page = call(t, server, http.MethodGet, "/?done=undrain")
	wantContains(t, page, "takes part again", fmt.Sprintf("workers/%s/drain", first))
	wantLacks(t, page, "Take back")

	wantStatus(t, call(t, server, http.MethodGet, fmt.Sprintf("/workers/%s/drain", uuid.UUID{15: 9})), http.StatusNotFound)
	wantStatus(t, post(t, server, "/actions/workers", url.Values{"worker": {uuid.UUID{15: 9}.String()}}), http.StatusNotFound)
	wantStatus(t, post(t, server, "/actions/workers", url.Values{"worker": {"x"}}), http.StatusBadRequest)
	readers := b.serve(t, ui.Options{ReadOnly: true})
	wantStatus(t, call(t, readers, http.MethodGet, fmt.Sprintf("/workers/%s/drain", second)), http.StatusForbidden)
	wantStatus(t, post(t, readers, "/actions/workers", url.Values{"worker": {second.String()}}), http.StatusForbidden)
	wantLacks(t, call(t, readers, http.MethodGet, "/"), "Drain…")
}

func TestAuditIsPaged(t *testing.T) {
	t.Parallel()
	b := newPages(t, 1)
	server := b.serve(t, ui.Options{})
	wantContains(t, call(t, server, http.MethodGet, "/audit"), "Nobody has done anything yet.")
	b.exec(t, `INSERT INTO outbox_audit (actor, action, target, reason, details)
		SELECT 'a<' || n || '>', 'thing', jsonb_build_object('sequences', (SELECT jsonb_agg(s) FROM generate_series(1, 20) AS s)), 'r', jsonb_build_object('count', 20, 'x', repeat('x', 5000))
		  FROM generate_series(1, 120) AS n`)
	entry := regexp.MustCompile(`<tr id="a-(\d+)"`)
	path, seen := "/audit", 0
	wantContains(t, call(t, server, http.MethodGet, path), `href="./api/v1/audit?after=121&amp;limit=1"`)
	for range 3 {
		page := call(t, server, http.MethodGet, path)
		wantStatus(t, page, http.StatusOK)
		seen += len(entry.FindAllString(page.text, -1))
		wantContains(t, page, "20 messages", "and 12 more", `href="./messages/8"`)
		next := regexp.MustCompile(`href="\./([^"]+)" rel="next"`).FindStringSubmatch(page.text)
		if next == nil {
			break
		}
		path = "/" + next[1]
	}
	if seen != 120 {
		t.Errorf("%d entries were paged through, want 120", seen)
	}
	wantContains(t, call(t, server, http.MethodGet, path), `rel="prev"`, "a&lt;1&gt;")
	wantContains(t, call(t, server, http.MethodGet, "/audit?after=1"), "nothing older")
	wantStatus(t, call(t, server, http.MethodGet, "/audit?after=x"), http.StatusBadRequest)
}

func TestSilenceAndReadinessAreNamed(t *testing.T) {
	t.Parallel()
	quiet := cluster(4)
	for i := range quiet.Partitions {
		quiet.Partitions[i].PausedAt = nil
	}
	quiet.Partitions[1].Owner, quiet.Partitions[1].LeaseLeft = quiet.Workers[0].ID, time.Minute
	quiet.Partitions[1].Pending, quiet.Partitions[1].OldestPending = 5, time.Minute
	busy := quiet
	quiet.Minutes = make([]ui.Minute, 60)
	quiet.Workers[0].Canary, quiet.Workers[1].Canary = "late", "lost"
	wantContains(t, call(t, serve(t, ui.Options{Source: always(quiet)}), http.MethodGet, "/"), `id="o-silence"`, "which say nothing is wrong", `id="o-canary-1"`, `id="o-canary-2"`)
	unready := func(context.Context) error { return errors.New("NATS postgres://u:geheim@h/ is <b>away</b>") }
	page := call(t, serve(t, ui.Options{Source: always(busy), Ready: unready}), http.MethodGet, "/")
	wantLacks(t, page, `id="o-silence"`, "geheim", "<b>away")
	wantContains(t, page, `id="o-ready"`, "&lt;b&gt;away")
}
