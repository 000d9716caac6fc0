package ui_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/ui"
)

// A person asks for a replay, watches it without touching the page, and ends another one.
func TestBrowserReplays(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)
	b := newPages(t, 4)
	var done []int64
	for n := range 300 {
		done = append(done, b.append(t, fmt.Sprint("s-", n%2)))
	}
	b.publish(t, done...)
	server := b.serve(t, ui.Options{})
	serveReplays(t, b.again)
	open(t, ctx, 1400, server.URL+"/replays", "#ask")
	ask := func(stream, rate, reason string) {
		t.Helper()
		must(t, do(ctx, chromedp.SendKeys(`#ask [name=stream]`, stream), chromedp.SetValue(`#ask [name=rate]`, rate), chromedp.Click("#ask button")))
		send(t, ctx, reason, "#flash")
	}
	ask("s-1", "50", "a consumer lost a day")
	watched(t, ctx, "r-1", `row.querySelector('progress')?.value > 0 && row.querySelector('.state').textContent === 'running'`)
	if b.one(t, `SELECT count(*) FROM outbox_replays WHERE state = 'running' AND reason = 'a consumer lost a day'`) != 1 {
		t.Error("nothing runs with that reason")
	}
	watched(t, ctx, "r-1", `row.querySelector('.state').textContent === 'done' && row.textContent.includes('150 of 150')`)
	ask("s-0", "0.1", "slow")
	watched(t, ctx, "r-2", `row.querySelector('.state').textContent === 'running'`)
	must(t, do(ctx, chromedp.Click("#r-2 a[href$=cancel]")))
	send(t, ctx, "the wrong day", "#flash")
	watched(t, ctx, "r-2", `row.querySelector('.state').textContent === 'cancelled' && !row.querySelector('a[href$=cancel]')`)
	for _, fault := range faults() {
		t.Errorf("the browser complains: %s", fault)
	}
}

// watched waits until the page shows by itself what holds of a row.
func watched(t *testing.T, ctx context.Context, row, holds string) {
	t.Helper()
	must(t, do(ctx, become(fmt.Sprintf(`((row) => row && %s)(document.getElementById(%q))`, holds, row))))
}
