package web_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/web"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0.0 s":          0,
		"0.4 s":          400 * time.Millisecond,
		"9.9 s":          9940 * time.Millisecond,
		"12 s":           12900 * time.Millisecond,
		"1 min":          time.Minute,
		"3 min 5 s":      185 * time.Second,
		"2 h 10 min":     130 * time.Minute,
		"4 d 3 h":        99 * time.Hour,
		"1,000 d":        24000 * time.Hour,
		"−14 s":          -14 * time.Second,
		"23 h 59 min":    24*time.Hour - time.Nanosecond,
		"59 min 59 s":    time.Hour - time.Nanosecond,
		"−2 h 10 min":    -130 * time.Minute,
		"106,751 d":      106751 * 24 * time.Hour,
		"1 h":            time.Hour,
		"1 d":            24 * time.Hour,
		"1 d 1 h":        25*time.Hour + time.Minute,
		"1 h 1 min":      61 * time.Minute,
		"1 min 1 s":      61 * time.Second,
		"10 s":           10 * time.Second,
		"−0.5 s":         -500 * time.Millisecond,
		"2 min 59 s":     180*time.Second - time.Millisecond,
		"4 d":            96 * time.Hour,
		"3 d 23 h":       96*time.Hour - time.Second,
		"20 min":         20 * time.Minute,
		"19 min 30 s":    19*time.Minute + 30*time.Second,
		"22 h":           22 * time.Hour,
		"106,751 d 23 h": 106751*24*time.Hour + 23*time.Hour,
	} {
		if got := web.Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	if got := web.Count(9007199254740993); got != "9,007,199,254,740,993" {
		t.Errorf("Count = %q", got)
	}
	for want, rate := range map[string]float64{"0": 0, "0.25": 0.25, "12.5": 12.5, "136,000": 136000.4} {
		if got := web.Rate(rate); got != want {
			t.Errorf("Rate(%v) = %q, want %q", rate, got, want)
		}
	}
}

func TestOwnerHues(t *testing.T) {
	t.Parallel()
	var ids []string
	for n := range web.Hues {
		ids = append(ids, fmt.Sprintf("worker-%02d", n))
	}
	hues := web.OwnerHues(ids)
	seen := map[int]bool{}
	for _, hue := range hues {
		if hue < 0 || hue >= web.Hues || seen[hue] {
			t.Fatalf("hue %d is out of range or given twice: %v", hue, hues)
		}
		seen[hue] = true
	}
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	if again := web.OwnerHues(append(reversed, ids...)); fmt.Sprint(again) != fmt.Sprint(hues) {
		t.Errorf("the order of the ids matters: %v, then %v", hues, again)
	}
	if many := web.OwnerHues(append(ids, "one", "more")); len(many) != web.Hues+2 {
		t.Errorf("%d owners have a hue, want %d", len(many), web.Hues+2)
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 4, 11, 35, 0, 0, time.UTC)
	var minutes []web.Minute
	for i := range 60 {
		minutes = append(minutes, web.Minute{At: start.Add(time.Duration(i) * time.Minute), Published: int64(i) * 1000})
	}
	minutes[30].Failed, minutes[30].Retried = 1, 2
	minutes[0].Skipped = 1
	chart := web.NewChart(minutes)
	if len(chart.Bars) != 60 || chart.Peak != 59000 || chart.Published != 1770000 || chart.Failed != 1 {
		t.Errorf("%d bars, peak %d, %d published, %d failed", len(chart.Bars), chart.Peak, chart.Published, chart.Failed)
	}
	if last := chart.Ticks[len(chart.Ticks)-1]; last.Label != "60,000" || last.Y != "10.0" {
		t.Errorf("the highest line is %+v", last)
	}
	if pieces := chart.Bars[30].Pieces; len(pieces) != 3 || pieces[2].Class != "failed" || pieces[2].Height != "1.0" {
		t.Errorf("one failure among thousands must be seen: %+v", pieces)
	}
	if len(chart.Bars[0].Pieces) != 0 || chart.Bars[5].Label != "11:40" || chart.Bars[6].Label != "" {
		t.Errorf("bars %+v", chart.Bars[:7])
	}
	for begun, bars := range map[int]int{5: 55, 58: 15} { // a young outbox is not lost in an empty hour
		young := make([]web.Minute, 60)
		young[begun].Published = 1
		if got := web.NewChart(young); len(got.Bars) != bars || got.Published != 1 {
			t.Errorf("begun %d minutes after the hour did: %d bars, want %d", begun, len(got.Bars), bars)
		}
	}
	for _, empty := range []web.Chart{web.NewChart(nil), web.NewChart(make([]web.Minute, 60))} {
		if len(empty.Ticks) < 2 || empty.Ticks[0].Label != "0" {
			t.Errorf("an idle hour has the lines %+v", empty.Ticks)
		}
	}
}

func TestPagesRenderFromLiterals(t *testing.T) {
	t.Parallel()
	renderer, err := web.NewRenderer()
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	err = renderer.Render(&page, "monitor", web.Monitor{
		Shell:   web.Shell{Root: "../", Title: "T"},
		Workers: []web.Worker{{ID: "w", Hostname: "<b>host</b>", State: "active"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := page.String(); strings.Contains(text, "<b>host</b>") || !strings.Contains(text, `href="../static/monitor.css"`) {
		t.Error("the page is not escaped or its addresses are not relative to the root")
	}
	page.Reset()
	if err := renderer.Render(&page, "failure", web.ErrorPage{Shell: web.Shell{Root: "./"}, Status: 418, Heading: "Teapot"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "418") {
		t.Error("the failure page lacks its status")
	}
}

// The content security policy allows nothing from elsewhere, and a colour number
// without a rule would be invisible.
func TestStaticFiles(t *testing.T) {
	t.Parallel()
	files, err := web.Static()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	style := read("monitor.css")
	for n := range web.Hues {
		if !strings.Contains(style, fmt.Sprintf(".owner-%d {", n)) {
			t.Errorf("the style sheet lacks .owner-%d", n)
		}
	}
	for _, name := range []string{"monitor.css", "pages.css", "monitor.js", "live.js", "keys.js", "search.js", "select.js", "themes.js", "patch.js", "theme.js"} {
		for _, foreign := range []string{"http://", "https://", "@import", "innerHTML", "eval(", "data:"} {
			if strings.Contains(read(name), foreign) {
				t.Errorf("%s holds %q", name, foreign)
			}
		}
	}
}
