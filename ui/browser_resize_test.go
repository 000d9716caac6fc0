package ui_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/postrider/postrider/ui"
)

// A person asks for another number of partitions, and watches it without touching the page: while a worker keeps some, and done.
func TestBrowserResizes(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)
	b := newPages(t, 4)
	for n := range 30 {
		b.append(t, fmt.Sprint("s-", n))
	}
	worker := uuid.Must(uuid.NewV7())
	b.join(t, worker, "busy", 1, 3)
	runner, _, _ := newRunner(t, b.pool, time.Minute)
	server := b.serve(t, ui.Options{Resizes: runner})
	open(t, ctx, 1400, server.URL, "#p-3")
	must(t, do(ctx, chromedp.Click(`#partitions a[href$="partitions/resize"]`), chromedp.WaitVisible("#ask")))
	looked(t, ctx, "resize-form")
	must(t, do(ctx, chromedp.SendKeys(`#ask [name=partitions]`, "7"), chromedp.Click("#ask button"), chromedp.WaitVisible("#confirm-heading")))
	looked(t, ctx, "resize-confirm")
	send(t, ctx, "more workers", "#flash")
	watched(t, ctx, "now", `row.querySelector('progress')?.value === 50 && row.textContent.includes('2 of 4')`)
	looked(t, ctx, "resize-running")
	if _, err := newStores(t, b.pool).leases.Disown(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	watched(t, ctx, "now", `row.textContent.includes('7 partitions') && !row.querySelector('progress')`)
	watched(t, ctx, "last", `row.querySelector('.state.done') && row.textContent.includes('more workers')`)
	looked(t, ctx, "resize-done")
	for _, fault := range faults() {
		t.Errorf("the browser complains: %s", fault)
	}
}

// looked checks that the page is accessible as it is, in both widths and schemes, and leaves pictures of it where they are asked for.
func looked(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		colorScheme(t, ctx, scheme)
		for width, suffix := range map[int64]string{1400: "", 400: "-narrow"} {
			must(t, do(ctx, chromedp.EmulateViewport(width, 1000)))
			for _, problem := range evaluate[[]string](t, ctx, accessibility) {
				t.Errorf("%s, %s, %d wide: %s", name, scheme, width, problem)
			}
			if os.Getenv("POSTRIDER_SCREENSHOTS") != "" {
				screenshot(t, ctx, name+suffix+"-"+scheme+".png")
			}
		}
	}
}
