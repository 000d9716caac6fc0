package ui_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/postrider/postrider/ui"
)

// browser starts a headless Chromium. POSTRIDER_BROWSER=1 asks for these tests
// and CI_BROWSER=1 demands them: then a missing browser fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	demanded := os.Getenv("CI_BROWSER") == "1"
	if !demanded && os.Getenv("POSTRIDER_BROWSER") != "1" {
		t.Skip("browser tests run with POSTRIDER_BROWSER=1")
	}
	found := false
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			found = true
		}
	}
	if !found {
		if demanded {
			t.Fatal("CI_BROWSER=1, but no Chromium is on the PATH")
		}
		t.Skip("no Chromium is on the PATH; on Debian: apt-get install chromium")
	}
	options := slices.Clone(chromedp.DefaultExecAllocatorOptions[:])
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	limited, cancel := context.WithTimeout(tab, 10*time.Minute)
	t.Cleanup(cancel)
	// A page without a window has no focus otherwise.
	command(t, limited, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return limited
}

// complaints collects what the browser objects to: script errors, refused
// resources, violations of the content security policy.
func complaints(t *testing.T, ctx context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var found []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, text)
	}
	must(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			note(e.Entry.Text + " " + e.Entry.URL)
		case *runtime.EventExceptionThrown:
			note((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		}
	}))
	command(t, ctx, log.Enable, cdp.Empty{})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(found)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func command[P, R any](t *testing.T, ctx context.Context, c cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(ctx, c, params)
	must(t, err)
}

// do takes one step after the other. The page changes while it is looked at: an
// element that was found may be gone when it shall be clicked, and is found again.
func do(ctx context.Context, steps ...chromedp.Action[chromedp.Void]) error {
	const attempts = 50
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for n := 1; n < attempts && err != nil && strings.Contains(err.Error(), "node with given id"); n++ {
			err = chromedp.Do(ctx, step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	must(t, err)
	return value
}

func become(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](condition)
}

// screenshot keeps the picture where POSTRIDER_SCREENSHOTS says.
func screenshot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	const bestQuality = 100
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(bestQuality))
	must(t, err)
	folder := os.Getenv("POSTRIDER_SCREENSHOTS")
	if folder == "" {
		folder = t.ArtifactDir()
	}
	must(t, os.WriteFile(filepath.Join(folder, name), picture, 0o600))
}

func colorScheme(t *testing.T, ctx context.Context, value string) {
	t.Helper()
	command(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
}

func TestBrowserShowsThePageLive(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	faults := complaints(t, ctx)

	var moved atomic.Bool
	newcomer := uuid.MustParse("0199a2f0-0000-7000-8000-0000000beef0")
	source := &scripted{next: func(context.Context) (ui.Snapshot, error) {
		snapshot := cluster(64)
		if moved.Load() {
			snapshot.Partitions[5].Owner = newcomer
			snapshot.Partitions[5].Epoch = 4711
		}
		return snapshot, nil
	}}
	server := serve(t, ui.Options{Source: source, Environment: "staging", Version: "1.2.3", BasePath: "/ops/outbox"})

	colorScheme(t, ctx, "light")
	must(t, do(ctx,
		chromedp.EmulateViewport(1440, 1000),
		chromedp.Navigate(server.URL+"/ops/outbox/"),
		chromedp.WaitVisible("#p-63"),
		// The stream is what keeps the page current.
		become(`document.getElementById('link').textContent === 'live'`),
		// A reader's state survives the refresh.
		chromedp.Click("#throughput-numbers summary"),
	))
	for selector, want := range map[string]int{"#workers tbody tr": 4, "#partitions .cell": 64, "#throughput .minute": 60} {
		if n := evaluate[int](t, ctx, `document.querySelectorAll('`+selector+`').length`); n != want {
			t.Errorf("%d elements match %s, want %d", n, selector, want)
		}
	}
	evaluate[bool](t, ctx, `(window.cell = document.getElementById('p-5')) !== null`)

	moved.Store(true)
	began := time.Now()
	must(t, do(ctx, become(`document.getElementById('p-5').textContent.includes('4,711')`)))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the change of owner took %v to appear, want at most 2 s", took)
	}
	if !evaluate[bool](t, ctx, `document.getElementById('throughput-numbers').open`) {
		t.Error("a refresh closed the table of numbers")
	}
	if !evaluate[bool](t, ctx, `document.getElementById('p-5') === window.cell`) {
		t.Error("a refresh replaced the cell instead of patching it")
	}
	must(t, do(ctx, chromedp.Click("#throughput-numbers summary")))
	screenshot(t, ctx, "monitor-light.png")
	colorScheme(t, ctx, "dark")
	screenshot(t, ctx, "monitor-dark.png")
	must(t, do(ctx, chromedp.Click(".views a:last-child"), chromedp.WaitVisible("tr#p-63")))
	screenshot(t, ctx, "monitor-table-dark.png")

	must(t, do(ctx,
		chromedp.EmulateViewport(420, 900),
		chromedp.Click("#theme"),
		become(`document.getElementById('theme').textContent === 'Theme: light'`),
		chromedp.Click(".views a:first-child"), chromedp.WaitVisible("li#p-63"),
	))
	if ground := evaluate[string](t, ctx, `getComputedStyle(document.body).backgroundColor`); ground != "rgb(244, 245, 247)" {
		t.Errorf("the chosen light theme did not survive the next page: the ground is %s", ground)
	}
	if !evaluate[bool](t, ctx, `(() => {
		const room = document.querySelector('.latest').getBoundingClientRect()
		const now = [...document.querySelectorAll('#throughput .minute')].at(-1).getBoundingClientRect()
		return now.left >= room.left && now.right <= room.right
	})()`) {
		t.Error("on a narrow screen the chart does not show the present")
	}
	screenshot(t, ctx, "monitor-narrow.png")
	if found := faults(); len(found) > 0 {
		t.Errorf("the browser complains: %q", found)
	}
}

func TestBrowserWithoutScript(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	server := serve(t, ui.Options{Source: always(cluster(64))})
	command(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, do(ctx,
		chromedp.EmulateViewport(1440, 1000),
		chromedp.Navigate(server.URL+"/"),
		chromedp.WaitVisible("#p-63"),
		chromedp.WaitVisible("#throughput .chart"),
		chromedp.WaitNotVisible("#theme"),
	))
	screenshot(t, ctx, "monitor-noscript.png")
}

func TestBrowserSaysWhenItIsCutOff(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	var down atomic.Bool
	cache, err := ui.NewCache(&scripted{next: func(context.Context) (ui.Snapshot, error) {
		if down.Load() {
			return ui.Snapshot{}, errors.New("away")
		}
		return cluster(16), nil
	}}, ui.CacheConfig{Interval: 100 * time.Millisecond, StaleAfter: time.Second})
	must(t, err)
	server := serve(t, ui.Options{Source: cache})
	says := func(text string) {
		t.Helper()
		must(t, do(ctx, become(fmt.Sprintf(`document.getElementById('link').textContent.startsWith(%q)`, text)), chromedp.WaitVisible("#topics")))
	}
	must(t, do(ctx, chromedp.Navigate(server.URL+"/topics"))) // it looks less often than the stream is tried again
	says("live")
	// One list that was not searched to its end does not end the updates.
	evaluate[bool](t, ctx, `(window.real = fetch, window.fetch = async () => new Response('<div data-live></div>'), true)`)
	says("not updating: looking takes long")
	evaluate[bool](t, ctx, `(window.fetch = real, true)`)
	says("live")
	// The server is there, and its database is not: the stream falls silent.
	down.Store(true)
	says("old numbers")
	must(t, do(ctx, chromedp.WaitVisible("#trouble")))
	down.Store(false)
	says("live")
	server.Listener.Close()
	server.CloseClientConnections()
	says("not updating: ")
}
