package ui_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/ui"
)

// send fills in the reason and sends the form that asks for it.
func send(t *testing.T, ctx context.Context, reason, ready string) {
	t.Helper()
	must(t, do(ctx,
		chromedp.WaitVisible("#confirm-heading"), chromedp.SendKeys("#reason", reason), chromedp.Click("form[method=post] button"),
		chromedp.WaitVisible(ready)))
}

// text asks in one step: between finding an element and reading it the page may change.
func text(t *testing.T, ctx context.Context, selector string) string {
	t.Helper()
	return evaluate[string](t, ctx, fmt.Sprintf(`document.querySelector(%q).textContent`, selector))
}

func noneHacked(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	if hacked := evaluate[string](t, ctx, `String(window.hacked ?? '')`); hacked != "" {
		t.Errorf("%s: a script ran: %s", where, hacked)
	}
}

func TestBrowserRunsNoHostileText(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)
	g := newGallery(t)
	options := g.options()
	options.Environment, options.Version = hostile("environment"), hostile("version")
	server := g.serve(t, options)
	for _, p := range g.pages(t) {
		open(t, ctx, 1440, server.URL+p.path, p.ready)
		noneHacked(t, ctx, p.name)
		if n := evaluate[int](t, ctx, `document.querySelectorAll('img, main script').length`); n > 0 {
			t.Errorf("%s: text became %d elements", p.name, n)
		}
	}
	// What a browser says of an answer that is no page is not about the policy.
	for _, fault := range faults() {
		if !strings.Contains(fault, "status of 4") {
			t.Errorf("the browser complains: %s", fault)
		}
	}
	open(t, ctx, 1440, fmt.Sprintf("%s/messages/%d", server.URL, g.dead), "#act")
	if shown := text(t, ctx, "main"); !strings.Contains(shown, `onerror="window.hacked='error'"`) || !strings.Contains(shown, "U+202E") || strings.Contains(shown, "\u202e") {
		t.Errorf("the error is not shown as it is: %.400q", shown)
	}
	// The policy itself forbids what would have run.
	evaluate[bool](t, ctx, `(document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hacked=1">'), true)`)
	evaluate[bool](t, ctx, `(document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.hacked=2' })), true)`)
	must(t, do(ctx, chromedp.Reload(), chromedp.WaitVisible("#act")))
	noneHacked(t, ctx, "with markup injected")
	if found := strings.Join(faults(), "\n"); !strings.Contains(found, "Content Security Policy") {
		t.Errorf("the policy stopped nothing: %s", found)
	}
}

func TestBrowserKeepsFilters(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	server := g.serve(t, g.options())
	open(t, ctx, 1440, server.URL+"/messages?state=dead", "#selection")
	must(t, do(ctx,
		chromedp.SendKeys(`[name=stream]`, "upload-1"), chromedp.SendKeys(`[name=error_contains]`, "max_payload"), chromedp.Click(".filter button"),
		chromedp.WaitVisible(`.filter [name=stream][value=upload-1]`), chromedp.Reload(), chromedp.WaitVisible(`.filter [name=stream][value=upload-1]`)))
	got := evaluate[[]string](t, ctx, `[document.querySelector('[name=stream]').value, document.querySelector('[name=error_contains]').value,
		document.querySelector('.chips [aria-current]').textContent.trim().split(' ')[0], String(document.querySelectorAll('tbody tr').length)]`)
	if fmt.Sprint(got) != "[upload-1 max_payload dead 1]" {
		t.Errorf("after loading again the filter is %q", got)
	}
	// And through an action: the list comes back as it was.
	must(t, do(ctx, chromedp.Click("[data-select-all]"), chromedp.Click(`button[name=selected][value=discard]`)))
	send(t, ctx, "test", "#flash")
	must(t, do(ctx, become(`!location.search.includes('done=')`))) // the script takes it away, and the page is visible before
	if at := evaluate[string](t, ctx, `location.search`); !strings.Contains(at, "stream=upload-1") || !strings.Contains(at, "state=dead") {
		t.Errorf("it leads back to %s", at)
	}
	if said := text(t, ctx, "#flash"); said != "1 message was discarded." {
		t.Errorf("it says %q", said)
	}
}

func TestBrowserSelectsByKeyboard(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	server := g.serve(t, g.options())
	live := become(`document.getElementById('link').textContent === 'live'`) // and so are the keys
	open(t, ctx, 1440, server.URL+"/", "#p-15")
	must(t, do(ctx, live, chromedp.KeyEvent("?"), chromedp.WaitVisible("#keys"), chromedp.KeyEvent("?"), chromedp.WaitNotVisible("#keys"),
		chromedp.KeyEvent("d"), chromedp.WaitVisible("#selection"), live))
	g.kill(t, "no", g.failed) // the counts above the list move with it
	must(t, do(ctx, become(`document.querySelector('.chip.dead b').textContent === '5'`), chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("x")))
	must(t, do(ctx, become(`document.querySelector('[data-selected]').textContent === '1 selected'`)))
	if second := evaluate[bool](t, ctx, `document.querySelectorAll('.pick input[name]')[1].checked`); !second {
		t.Error("j, j, x did not select the second row")
	}
	must(t, do(ctx, chromedp.KeyEvent("/")))
	if at := evaluate[string](t, ctx, `document.activeElement.name`); at != "sequence" {
		t.Errorf("/ leads to %q", at)
	}
	// In a field, keys are letters.
	must(t, do(ctx, chromedp.KeyEvent("7m"), become(`document.activeElement.value.endsWith('7m')`)))
}

func TestBrowserReadsOnly(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	options := g.options()
	options.ReadOnly = true
	server := g.serve(t, options)
	for _, p := range g.pages(t) {
		if strings.HasPrefix(p.name, "confirm") || p.name == "drain" {
			open(t, ctx, 1440, server.URL+p.path, ".failure")
			if said := text(t, ctx, ".failure .code"); said != "403" {
				t.Errorf("%s answers %s", p.name, said)
			}
			continue
		}
		ready := strings.NewReplacer("#act", "main", "#ask", "main", "#pause", "main").Replace(p.ready)
		open(t, ctx, 1440, server.URL+p.path, ready)
		if n := evaluate[int](t, ctx, `document.querySelectorAll('form[method=post], .pick input, [name=selected], [name=all], a[href$=drain]').length`); n > 0 {
			t.Errorf("%s offers %d actions", p.name, n)
		}
	}
	for path, body := range map[string]string{
		"actions/messages":   fmt.Sprintf("selected=requeue&dead=%d", g.dead),
		"actions/partitions": "partition=1&action=pause",
		"actions/workers":    "worker=" + g.owner.String(),
		"actions/replays":    "all=1&reason=x&n=40",
		"actions/resize":     "partitions=32&reason=x",
	} {
		status := forge(t, ctx, server.URL+"/"+path, body)
		if status != http.StatusForbidden {
			t.Errorf("a forged POST to %s got %d, want 403", path, status)
		}
	}
	if n := g.one(t, `SELECT count(*) FROM outbox_audit WHERE actor = 'local' AND reason IS NOT NULL`); n != 0 {
		t.Error("something was changed")
	}
}

// forge sends a form from a script, as a person would who has no button.
func forge(t *testing.T, ctx context.Context, address, body string) int {
	t.Helper()
	status, err := chromedp.Run(ctx, chromedp.Evaluate[int](fmt.Sprintf(
		`fetch(%q, { method: 'POST', headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, body: %q }).then((r) => r.status)`, address, body),
		chromedp.EvalAwaitPromise))
	must(t, err)
	return status
}

func TestBrowserWorksBehindProxies(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)
	const base = "/ops/outbox"
	for name, strips := range map[string]bool{"stripping": true, "keeping": false} {
		g := newGallery(t)
		options := g.options()
		if !strips {
			options.BasePath = base
		}
		target, err := url.Parse(g.serve(t, options).URL)
		must(t, err)
		var proxy http.Handler = &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		}}
		if strips {
			proxy = http.StripPrefix(base, proxy)
		}
		mux := http.NewServeMux()
		mux.Handle(base+"/", proxy)
		front := httptest.NewServer(mux)
		for _, p := range g.pages(t) {
			open(t, ctx, 1440, front.URL+base+p.path, p.ready)
			if styled := evaluate[string](t, ctx, `getComputedStyle(document.querySelector('.masthead')).display`); styled != "flex" {
				t.Errorf("%s, %s: the style sheet did not come", name, p.name)
			}
			for _, link := range evaluate[[]string](t, ctx, `[...document.querySelectorAll('a[href], form[action]')].map((e) => new URL(e.getAttribute('href') ?? e.getAttribute('action'), location).pathname)`) {
				if !strings.HasPrefix(link, base+"/") {
					t.Errorf("%s, %s: a link leads to %s", name, p.name, link)
				}
			}
		}
		open(t, ctx, 1440, front.URL+base+"/", "#p-15")
		must(t, do(ctx, become(`document.getElementById('link').textContent === 'live'`), chromedp.Click("#p-4 a"),
			chromedp.WaitVisible("#pause"), chromedp.Click("#pause button"), chromedp.WaitVisible("#flash")))
		if said := text(t, ctx, "#flash"); said != "Partition 4 is resumed." {
			t.Errorf("%s: it says %q", name, said)
		}
		must(t, do(ctx, chromedp.Navigate("about:blank")))
		front.CloseClientConnections()
		front.Close()
	}
	for _, fault := range faults() {
		if !strings.Contains(fault, "status of 4") {
			t.Errorf("the browser complains: %s", fault)
		}
	}
}

func TestBrowserWorksWithoutScript(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	g := newGallery(t)
	server := g.serve(t, ui.Options{Resizes: g.resizes})
	command(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for _, p := range g.pages(t) {
		if p.name == "message-payload" { // hidden here
			continue
		}
		open(t, ctx, 1440, server.URL+p.path, p.ready)
		must(t, do(ctx, chromedp.WaitNotVisible("#theme"), chromedp.WaitNotVisible("#help")))
	}
	open(t, ctx, 1440, server.URL+"/messages?state=dead", "#selection")
	must(t, do(ctx, chromedp.WaitNotVisible("[data-select-all]"), chromedp.Click(fmt.Sprintf("#m-%d .pick input", g.dead)), chromedp.Click(`button[name=selected][value=discard]`)))
	send(t, ctx, "no script", "#flash")
	open(t, ctx, 1440, server.URL+"/partitions/1", "#pause")
	must(t, do(ctx, chromedp.Click("#pause button"), chromedp.WaitVisible("#confirm-heading")))
	send(t, ctx, "no script", "#flash")
	open(t, ctx, 1440, fmt.Sprintf("%s/workers/%s/drain", server.URL, g.owner), "#confirm-heading")
	send(t, ctx, "no script", "#flash")
	if done := g.text(t, `SELECT string_agg(action, ' ' ORDER BY id) FROM outbox_audit WHERE reason = 'no script'`); done != "dead.discard partition.pause worker.drain" {
		t.Errorf("the audit tells of %q", done)
	}
}
