package ui_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops/resize"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// accessibility is a script that returns what is wrong with the page it runs in.
//
//go:embed testdata/accessibility.js
var accessibility string

// hostile runs a script where it is taken for markup, turns the writing around
// and is long without a place to break.
func hostile(word string) string {
	return `"><img src=x onerror="window.hacked='` + word + `'"><script>window.hacked='` + word + `'</script>` +
		"\u202e" + strings.Repeat("W", 90)
}

// gallery is an outbox with everything in it that a page can show.
type gallery struct {
	*outboxBundle
	partitions              int
	dead, failed, published int64
	owner                   uuid.UUID
	resizes                 *resize.Runner
}

func newGallery(t *testing.T) *gallery {
	t.Helper()
	const partitions = 16
	g := &gallery{outboxBundle: newPages(t, partitions), partitions: partitions, owner: uuid.UUID{0: 1, 15: 0xa1}}
	g.resizes, _, _ = newRunner(t, g.pool, time.Minute)
	share := map[uuid.UUID][]partition.ID{}
	others := []uuid.UUID{g.owner, {0: 2, 15: 0xb2}, {0: 3, 15: 0xc3}}
	for p := range partition.ID(partitions - 1) { // the last one has no owner
		id := others[int(p)%len(others)]
		share[id] = append(share[id], p)
	}
	for i, id := range others {
		g.join(t, id, []string{hostile("host"), "relay-7c9d8f6b5-x2x4z", "relay-2.example.net"}[i], share[id]...)
	}
	g.exec(t, `UPDATE outbox_ownership SET changed_at = changed_at - interval '40 minutes' + id * interval '20 seconds'`)
	g.exec(t, `INSERT INTO outbox_ownership (kind, previous_id, previous_hostname, worker_id, hostname, lease_until, partition_keys, lease_epochs, changed_at)
		VALUES ('released', $1, 'relay-2.example.net', NULL, NULL, NULL, '{2,5,8,11}', '{2,2,2,2}', now() - interval '25 minutes'),
		       ('moved', $1, 'relay-2.example.net', $2, $3, NULL, '{2,5,8,11}', '{3,3,3,3}', now() - interval '24 minutes'),
		       ('taken-over', $2, $3, $1, 'relay-2.example.net', now() - interval '9 minutes', '{2,5,8,11}', '{4,4,4,4}', now() - interval '8 minutes')`,
		others[2], uuid.UUID{0: 9, 15: 0xd9}, hostile("gone"))
	for n := range 40 {
		g.published = g.append(t, fmt.Sprintf("order-%d", n%9))
	}
	// Longer than the longest test.
	g.exec(t, `UPDATE outbox_partitions SET lease_until = lease_until + interval '10 minutes'`)
	g.exec(t, `UPDATE outbox_workers SET heartbeat_until = heartbeat_until + interval '10 minutes'`)
	g.exec(t, `UPDATE events SET recorded_at = clock_timestamp() - interval '40 ms'`)
	var done []int64
	for n := int64(1); n <= g.published; n++ {
		done = append(done, n)
	}
	g.publish(t, done...)
	for n := range 59 {
		g.exec(t, `INSERT INTO outbox_throughput (minute, partition_key, published, failed, retried)
			VALUES (date_trunc('minute', clock_timestamp()) - $1 * interval '1 minute', 3, $2, $3, $4)`, n, 9000+n*n*7%4000, n%13*20, n%7*90)
	}
	g.trouble(t)
	return g
}

// trouble adds what failed, died and waits, with names that nobody would choose.
func (g *gallery) trouble(t *testing.T) {
	t.Helper()
	for n := range 12 {
		g.append(t, fmt.Sprintf("customer-%d", n))
	}
	g.failed = g.append(t, "invoice-2026-000231")
	g.fail(t, "nats: timeout\nwhile publishing", g.failed)
	var all []int64
	for range 4 {
		all = append(all, g.one(t, `SELECT outbox_append($1, $2, '{"text": "<script>window.hacked=1</script>", "n": 9007199254740993}', topic => $3,
			metadata => jsonb_build_object('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'headers', jsonb_build_object('X-Note', $4::text)))`,
			hostile("stream"), hostile("type"), hostile("topic"), hostile("header")))
	}
	g.dead = all[0]
	g.kill(t, hostile("error")+"\nsecond line", g.dead)
	g.exec(t, `UPDATE outbox SET failures = '[{"at": "2026-01-02T03:04:05Z", "class": "permanent", "text": "x"}]' WHERE global_sequence = $1`, g.dead)
	g.block(t, all[1:]...)
	for n := range 3 {
		g.kill(t, fmt.Sprintf("message of %d bytes is larger than max_payload 1048576", 1<<20+997*n), g.append(t, fmt.Sprintf("upload-%d", n)))
	}
	g.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp() - interval '90 minutes' WHERE partition_key IN (4, 9)`)
	g.exec(t, `INSERT INTO outbox_audit (actor, action, target, reason, details) VALUES
		('ann', 'dead.requeue', '{"sequences": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "partitions": [1, 2]}', 'the broker is mended', '{"count": 10}'),
		('local', 'partition.pause', '{"partitions": [4]}', NULL, '{"count": 1}'),
		($1, $1, '{"worker_id": "01000000-0000-0000-0000-0000000000a1"}', $1, jsonb_build_object('hostname', $1::text))`, hostile("audit"))
	g.replay(t)
}

// replay adds replays in every state.
func (g *gallery) replay(t *testing.T) {
	t.Helper()
	g.exec(t, `INSERT INTO outbox_replays (kind, destination, actor, reason, selection, prefix, stream, last_sequence, state, generation, rate,
			selected, expected, replayed, gone, failed, waiting_for, created_at, updated_at, finished_at)
		SELECT r.kind, CASE WHEN r.prefix IS NULL THEN 'live' ELSE 'shadow' END, r.actor, r.reason, r.selection::jsonb, r.prefix, 'REPLAYS', 40, r.state,
			100 * r.n, r.rate, r.selected, r.expected, r.replayed, r.gone, r.failed, r.waiting, now() - (9 - r.n) * interval '7 minutes', now() + r.heard,
			CASE WHEN r.state IN ('done', 'cancelled') THEN now() - interval '1 minute' END
		  FROM (VALUES
			(1, 'range', 'ann', 'a day is missing', '{"since": "2026-01-02T00:00:00Z"}', NULL, 'done', 500, 1234567, NULL, 1234567, 0, 0, NULL, interval '0'),
			(2, 'retry', 'ann', NULL, '{"all": true, "to_sequence": 40}', NULL, 'cancelled', 1000, 4, 7, 0, 0, 0, NULL, interval '0'),
			(3, 'retry', 'bob', 'mended', '{"topic": "shop"}', NULL, 'done', NULL, 90, NULL, 85, 5, 0, NULL, interval '0'),
			(4, 'range', $1, $1, jsonb_build_object('stream', $1::text)::text, NULL, 'running', 200, 80000, 80000, 30117, 0, 0, 'the outbox holds 5123 rows that can be published', interval '10 minutes'),
			(5, 'rebuild-current', 'ann', 'a new table', '{"all": true}', 'replay.{id}', 'running', NULL, 100, NULL, 3, 0, 2, NULL, interval '-2 minutes'),
			(6, 'range', 'ann', 'next week', '{"all": true}', NULL, 'planned', NULL, 46, NULL, 0, 0, 0, NULL, interval '0'),
			(7, 'range', 'local', 'a consumer lost a day', '{"topic": "shop", "to_sequence": 40}', NULL, 'planned', 1000, NULL, 12, 0, 0, 0, NULL, interval '0'))
		    AS r (n, kind, actor, reason, selection, prefix, state, rate, selected, expected, replayed, gone, failed, waiting, heard)
		 ORDER BY r.n`, hostile("replay"))
}

func (g *gallery) options() ui.Options {
	return ui.Options{Environment: "staging", Version: "1.2.3", ShowPayload: true, Resizes: g.resizes}
}

// page is one of the monitor's, and a selector of what shows that it is there.
type page struct{ name, path, ready string }

// pages are all there are.
func (g *gallery) pages(t *testing.T) []page {
	t.Helper()
	at := g.one(t, `SELECT partition_key FROM outbox WHERE global_sequence = $1`, g.dead)
	return []page{
		{"overview", "/", "#p-15"},
		{"overview-table", "/?partitions=table", "tr#p-15"},
		{"messages", "/messages", "#selection"},
		{"messages-dead", "/messages?state=dead", "#selection"},
		{"causes", "/messages/causes", ".causes"},
		{"messages-none", "/messages?stream=nobody", "main .empty"},
		{"messages-refused", "/messages?state=lost", "#problem"},
		{"message-dead", fmt.Sprintf("/messages/%d", g.dead), "#act"},
		{"message-payload", fmt.Sprintf("/messages/%d?payload=show", g.dead), "#payload pre"},
		{"message-published", fmt.Sprintf("/messages/%d", g.published), "#explain"},
		{"topics", "/topics", ".names"},
		{"replays", "/replays", ".replays"},
		{"confirm-replay-refused", "/replays/confirm?kind=range&stream=nobody", "#problem"},
		{"replays-none", "/replays?after=1", "main .empty"},
		{"confirm-replay", "/replays/confirm?kind=range&stream=order-3&rate=200", "#confirm-heading"},
		{"confirm-replay-end", "/replays/4/cancel", "#confirm-heading"},
		{"stream", "/streams?stream=order-3", ".life"},
		{"stream-stands", "/streams?" + url.Values{"stream": {hostile("stream")}}.Encode(), "#standing"},
		{"stream-none", "/streams?stream=nobody", "main .empty"},
		{"confirm", "/messages/confirm?" + url.Values{"all": {"discard"}, "state": {"dead"}}.Encode(), "#confirm-heading"},
		{"confirm-refused", fmt.Sprintf("/messages/confirm?selected=skip&dead=%d", g.published), "#problem"},
		{"partition-stuck", fmt.Sprintf("/partitions/%d", at), "#heads table"},
		{"partition-paused", "/partitions/4", "#pause"},
		{"partition-unowned", "/partitions/15", "#pause"},
		{"confirm-pause", "/partitions/3/pause", "#confirm-heading"},
		{"drain", fmt.Sprintf("/workers/%s/drain", g.owner), "#confirm-heading"},
		{"resize", "/partitions/resize", "#ask"},
		{"confirm-resize-none", "/partitions/resize/confirm?partitions=16", "#confirm-heading"},
		{"confirm-resize-refused", "/partitions/resize/confirm?partitions=32", "#problem"},
		{"audit", "/audit", "main table"},
		{"ownership", "/ownership?partition=1", "main table"},
		{"ownership-all", "/ownership", "#timeline"},
		{"audit-end", "/audit?after=1", "main .empty"},
		{"failure", "/nothing", ".failure"},
	}
}

// open shows a page in a window of that width.
func open(t *testing.T, ctx context.Context, width int, address, ready string) {
	t.Helper()
	must(t, do(ctx, chromedp.EmulateViewport(int64(width), 1000), chromedp.Navigate(address), chromedp.WaitVisible(ready)))
}

func TestBrowserFindsPagesAccessible(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	server := g.serve(t, g.options())
	for _, scheme := range []string{"light", "dark"} {
		colorScheme(t, ctx, scheme)
		for _, p := range g.pages(t) {
			for _, width := range []int{1440, 400} {
				open(t, ctx, width, server.URL+p.path, p.ready)
				for _, problem := range evaluate[[]string](t, ctx, accessibility) {
					t.Errorf("%s, %s, %d wide: %s", p.name, scheme, width, problem)
				}
			}
		}
	}
}

// The checker must find what it is for.
func TestBrowserAccessibilityCheckerFinds(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	open(t, ctx, 1440, g.serve(t, g.options()).URL+"/messages?state=dead", "#selection")
	if found := evaluate[[]string](t, ctx, accessibility); len(found) > 0 {
		t.Fatalf("before anything was broken: %q", found)
	}
	for script, want := range map[string]string{
		`document.documentElement.lang = ''`:                                                                                          "no language",
		`document.querySelector('h1').outerHTML = '<h3>x</h3>'`:                                                                       "h1",
		`document.querySelector('main').append(document.querySelector('h2').cloneNode())`:                                             "empty",
		`document.getElementById('theme').textContent = ''`:                                                                           "no name",
		`document.querySelector('caption').remove()`:                                                                                  "no name",
		`document.querySelector('tbody th').removeAttribute('scope')`:                                                                 "no scope",
		`document.getElementById('flash') ?? document.body.append(document.getElementById('link').cloneNode())`:                       "2 times",
		`document.styleSheets[0].insertRule('td { color: #999 !important }')`:                                                         "contrast",
		`document.styleSheets[0].insertRule('a:focus-visible { outline: none !important }', document.styleSheets[0].cssRules.length)`: "focus",
		`document.querySelector('.scroll').removeAttribute('tabindex'), document.querySelector('.scroll').style.width = '300px'`:      "keyboard",
	} {
		must(t, do(ctx, chromedp.Reload(), chromedp.WaitVisible("#selection")))
		// In one step: an update of the page mends some of it.
		if found := evaluate[[]string](t, ctx, "("+script+", true);\n"+accessibility); !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("after %s it found %q, not %q", script, found, want)
		}
	}
}

// Pictures of every page for people to look at, where POSTRIDER_SCREENSHOTS says.
func TestBrowserTakesPictures(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("POSTRIDER_SCREENSHOTS")
	if folder == "" {
		t.Skip("POSTRIDER_SCREENSHOTS names no directory")
	}
	must(t, os.MkdirAll(folder, 0o755))
	ctx := browser(t)
	g := newGallery(t)
	server := g.serve(t, g.options())
	for _, scheme := range []string{"light", "dark"} {
		colorScheme(t, ctx, scheme)
		for _, p := range g.pages(t) {
			for width, suffix := range map[int]string{1440: "", 400: "-narrow"} {
				open(t, ctx, width, server.URL+p.path, p.ready)
				screenshot(t, ctx, p.name+suffix+"-"+scheme+".png")
			}
		}
		for _, n := range []int{64, 1024} {
			many := serve(t, ui.Options{Source: always(cluster(n)), Environment: "production"})
			open(t, ctx, 1440, many.URL, fmt.Sprintf("#p-%d", n-1))
			screenshot(t, ctx, fmt.Sprintf("overview-%d-%s.png", n, scheme))
		}
		empty := newPages(t, 1).serve(t, ui.Options{})
		open(t, ctx, 1440, empty.URL, "#p-0")
		screenshot(t, ctx, "overview-empty-"+scheme+".png")
		must(t, do(ctx, chromedp.Click("#help"), chromedp.WaitVisible("#keys")))
		screenshot(t, ctx, "keys-"+scheme+".png")
	}
}
