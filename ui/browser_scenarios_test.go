package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
)

// What goes wrong in a live cluster is named on the page, in the words of
// docs/scenarios.md, whose pictures are made here.
func TestBrowserNamesWhatIsStuck(t *testing.T) { //nolint:paralleltest // a cluster of its own
	ctx := browser(t)
	l := newLive(t, nil)
	named := func(picture string, words ...string) {
		t.Helper()
		must(t, do(ctx, chromedp.EmulateViewport(1100, 560), chromedp.Navigate(l.server.URL+"/"), chromedp.WaitVisible("#partitions")))
		for _, said := range words {
			must(t, do(ctx, become(fmt.Sprintf(`document.getElementById('stuck')?.textContent.includes(%q)`, said))))
		}
		folder := os.Getenv("POSTRIDER_SCREENSHOTS")
		if folder == "" {
			return
		}
		must(t, os.MkdirAll(folder, 0o755))
		shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, "stuck-"+picture+".png"), shot, 0o600))
	}
	for n := range 40 {
		l.append(t, fmt.Sprintf("customer-%d", n))
	}

	dead := l.poison(t, "order-17", 1)[0]
	for range 3 {
		l.waitState(t, "blocked", l.append(t, "order-17"))
	}
	named("dead", "1 event given up. A person", "3 events of 1 stream wait behind an earlier event")
	l.exec(t, `DELETE FROM outbox WHERE stream_id LIKE 'order-17%'`)

	config, err := pgx.ParseConfig(l.pool.Config().ConnString())
	must(t, err)
	config.RuntimeParams["application_name"] = "billing-import"
	forgetful, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer forgetful.Close(t.Context())
	_, err = forgetful.Exec(t.Context(), `BEGIN; SELECT outbox_append('invoice-9', 'thing.done', '{}')`)
	must(t, err)
	for n := range 9 {
		l.append(t, fmt.Sprintf("customer-%d", n))
	}
	named("transaction", "An open transaction holds the order back", "billing-import")
	_, err = forgetful.Exec(t.Context(), `ROLLBACK`)
	must(t, err)
	l.cluster.WaitDrained(t)

	l.exec(t, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`)
	for n := range 9 {
		l.append(t, fmt.Sprintf("customer-%d", n))
	}
	named("paused", "9 events wait until the partition is resumed")
	l.exec(t, `UPDATE outbox_partitions SET paused_at = NULL`)
	l.cluster.WaitDrained(t)

	for _, w := range l.workers {
		w.Signal(t, syscall.SIGKILL)
	}
	l.append(t, fmt.Sprintf("after-%d", dead))
	named("no-workers", "No owner", "1 event waits")
}
