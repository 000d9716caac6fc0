package model

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/tools/model/search"
)

// explore visits the states of Postrider's own protocol and expects no counterexample, and its figures in figures.golden.
func explore(t *testing.T, c Config) Result {
	t.Helper()
	started := time.Now()
	r, err := Explore(c, Protocol{})
	if err != nil {
		t.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%+v: %s states, %s steps, depth %d, %s with everything done; %v, %s taken from the system", c,
		humanize.Comma(int64(r.States)), humanize.Comma(int64(r.Steps)), r.Depth, humanize.Comma(int64(r.Finished)),
		time.Since(started).Round(time.Millisecond), humanize.IBytes(memory.Sys))
	for _, b := range r.Broken {
		t.Errorf("broken: %s\n%s", b.Invariant, traceText(b.Trace))
	}
	if r.Truncated {
		t.Error("the exploration left steps out")
	}
	if r.Finished == 0 {
		t.Error("no state in which every event is published and marked: the model shows nothing")
	}
	if figure := humanize.Comma(int64(r.States)); !strings.Contains(figures(t), " "+figure+"\n") {
		t.Errorf("figures.golden does not have the figure %s", figure)
	}
	return r
}

func figures(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("figures.golden")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheProtocolKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"three workers":      {Workers: 3, Events: 2, Claim: 2, Acquisitions: 3, Takes: 1, StaleReads: true, Crashes: true},
		"taking anew":        {Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 2, StaleReads: true, Crashes: true, Progress: true},
		"a lagging standby":  {Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Lagging: true},
		"a cursor":           {Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Cursor: true, Reclaim: true, Progress: true},
		"both":               {Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true, Cursor: true, Reclaim: true},
		"one by one":         {Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Singles: true, Progress: true},
		"one by one, anew":   {Workers: 1, Events: 2, Fail: 1, Claim: 2, Acquisitions: 1, Takes: 2, Crashes: true, Singles: true},
		"one by one, behind": {Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true, Singles: true},
		"torn":               {Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Torn: true},
		"torn, anew":         {Workers: 1, Events: 2, Fail: 1, Claim: 2, Acquisitions: 1, Takes: 2, Crashes: true, Torn: true, Singles: true},
		"comparing":          {Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Lagging: true, Compare: true},
		"comparing a cursor": {Workers: 1, Events: 2, Fail: 1, Claim: 2, Acquisitions: 1, Takes: 2, Crashes: true, Cursor: true, Reclaim: true, Compare: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(t, c)
		})
	}
}

func TestEverythingHappens(t *testing.T) {
	t.Parallel()
	r := explore(t, Config{Workers: 2, Events: 3, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Progress: true})
	for _, h := range [][2]string{
		{"the lease runs out", ""},
		{"renews its lease", ""},
		{"gives its lease back", ""},
		{"crashes or gives up", ""},
		{"what is committed becomes durable", ""},
		{"the database crashes", ""},
		{"reads stale", ""},
		{"reads", "a newer owner: stops, the next lease lies above"},
		{"reads", "its own fence: stands"},
		{"reads", "its own batch: stored"},
		{"reads", "a newer owner: fenced, stops"},
		{"walks the records, which name", ""},
		{"claims", ""},
		{"sends", "done"},
		{"sends", "stored"},
		{"sends", "refused"},
		{"sends", "no answer, though stored"},
		{"sends", "no answer, the bytes are held up"},
		{"sends", "the lease is lost: stops"},
		{"late bytes arrive:", "stored"},
		{"late bytes arrive:", "done"},
	} {
		if r.Happened[search.Happening{Did: h[0], Then: h[1]}] == 0 {
			t.Errorf("never happened: %s; %s", h[0], h[1])
		}
	}
}

func TestFurtherBounds(t *testing.T) { //nolint:paralleltest // one after the other, for the memory
	slow.Test(t)
	for _, c := range []Config{
		{Workers: 3, Events: 3, Claim: 2, Acquisitions: 3, Takes: 1, StaleReads: true, Crashes: true},
		{Workers: 2, Events: 3, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 2, Crashes: true},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 2, Crashes: true, Lagging: true},
		{Workers: 2, Events: 3, Fail: 3, Claim: 2, Acquisitions: 2, Takes: 1, Crashes: true, Cursor: true, Reclaim: true},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 2, Crashes: true, Cursor: true, Reclaim: true},
		{Workers: 2, Events: 3, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true, Cursor: true, Reclaim: true},
		{Workers: 1, Events: 2, Fail: 1, Claim: 2, Acquisitions: 1, Takes: 3, Crashes: true, Singles: true},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true, Compare: true},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, Crashes: true, Cursor: true, Reclaim: true, Compare: true},
		{Workers: 1, Events: 3, Fail: 1, Claim: 2, Acquisitions: 1, Takes: 2, Crashes: true, Compare: true},
	} {
		explore(t, c)
	}
}

func TestStatesThatCountAsOneBehaveAlike(t *testing.T) {
	t.Parallel()
	behaveAlike(t, Config{Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true}, Protocol{})
	behaveAlike(t, Config{Workers: 1, Events: 1, Fail: 1, Claim: 1, Acquisitions: 1, Takes: 2, Crashes: true, Cursor: true}, Protocol{})
	behaveAlike(t, Config{Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true}, Protocol{})
	behaveAlike(t, Config{Workers: 1, Events: 1, Fail: 1, Claim: 1, Acquisitions: 1, Takes: 2, Crashes: true, Compare: true}, Protocol{})
	behaveAlike(t, Config{Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1}, Protocol{MarkWithoutEpoch: true})
}

func TestMoreStatesThatCountAsOneBehaveAlike(t *testing.T) { //nolint:paralleltest // alone, for the memory
	slow.Test(t)
	behaveAlike(t, Config{Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1}, Protocol{})
}

// behaveAlike explores without taking states for the same. They must fall into as many classes as there are states when
// they are: if states that count as one differed in what can follow, one of the numbers would be lower.
func behaveAlike(t *testing.T, c Config, p Protocol) {
	t.Helper()
	want := search.Run(&system{Config: c, Protocol: p}, c.options())
	got, classes := search.Classify(&system{Config: c, Protocol: p, exact: true}, &system{Config: c, Protocol: p}, c.options())
	t.Logf("%d states in %d classes", got.States, classes)
	if got.Truncated || want.Truncated || classes != want.States || len(got.Broken) != len(want.Broken) || got.States == want.States {
		t.Errorf("%d states in %d classes and %d invariants broken, truncated: %v; with the reduction %d states, %d and %v",
			got.States, classes, len(got.Broken), got.Truncated, want.States, len(want.Broken), want.Truncated)
	}
}

func TestBoundsAreChecked(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]Config{
		"Workers":      {Workers: 4, Events: 1, Claim: 1, Acquisitions: 1, Takes: 1},
		"Events":       {Workers: 1, Events: 0, Claim: 1, Acquisitions: 1, Takes: 1},
		"Claim":        {Workers: 1, Events: 1, Claim: 8, Acquisitions: 1, Takes: 1},
		"Takes":        {Workers: 1, Events: 1, Claim: 1, Acquisitions: 1},
		"Acquisitions": {Workers: 1, Events: 1, Claim: 1, Acquisitions: 6, Takes: 1},
	} {
		if _, err := Explore(c, Protocol{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: error %v, want one that names %s", c, err, field)
		}
	}
}
