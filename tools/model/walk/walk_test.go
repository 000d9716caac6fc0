package walk

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

// explore visits the states of the protocol and expects no counterexample, and its figures in figures.golden.
func explore(t *testing.T, c Config, p Protocol) Result {
	t.Helper()
	started := time.Now()
	r, err := Explore(c, p)
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
		"three workers":          {Workers: 3, Events: 1, Claim: 1, Acquisitions: 3, Takes: 1, StaleReads: true},
		"events that fail":       {Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Progress: true},
		"taking anew":            {Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 2, StaleReads: true, Crashes: true},
		"a lagging standby":      {Workers: 2, Events: 2, Claim: 1, Acquisitions: 2, Takes: 1, Crashes: true, Lagging: true},
		"a stream that forgets":  {Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1, Losses: 1, Crashes: true},
		"both forget":            {Workers: 1, Events: 2, Claim: 2, Acquisitions: 2, Takes: 2, Losses: 1, Crashes: true, Progress: true},
		"and the standby lags":   {Workers: 1, Events: 2, Claim: 1, Acquisitions: 1, Takes: 2, Losses: 1, Crashes: true, Lagging: true},
		"it forgets what failed": {Workers: 1, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, Losses: 1, Crashes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(t, c, Protocol{})
		})
	}
}

// A mark without an answer may count as made.
func TestWhatMayBeLeftOut(t *testing.T) {
	t.Parallel()
	explore(t, Config{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Progress: true}, Protocol{TrustMark: true})
	explore(t, Config{Workers: 1, Events: 2, Claim: 2, Acquisitions: 2, Takes: 2, Losses: 1, Crashes: true}, Protocol{TrustMark: true})
}

// A worker that a loss finds about to write may expect a position of the earlier stream, where another's record lies now.
func TestPositionsComeAgain(t *testing.T) {
	t.Parallel()
	c := Config{Workers: 2, Events: 2, Claim: 1, Acquisitions: 2, Takes: 1, Losses: 1, Zombies: true, Remade: true}
	explore(t, c, Protocol{LifeInSubject: true})
	restored := c
	restored.Remade = false
	for _, hazard := range []struct {
		Config
		Protocol
	}{{c, Protocol{}}, {restored, Protocol{LifeInSubject: true}}} {
		if r, err := Explore(hazard.Config, hazard.Protocol); err != nil || len(r.Broken) == 0 {
			t.Errorf("%+v breaks nothing (%v): the assumption is not needed any more", hazard, err)
		}
	}
}

func TestEverythingHappens(t *testing.T) {
	t.Parallel()
	r := explore(t, Config{Workers: 2, Events: 2, Claim: 1, Acquisitions: 2, Takes: 1, Losses: 1, StaleReads: true, Crashes: true}, Protocol{})
	for _, h := range [][2]string{
		{"the lease runs out", ""},
		{"renews its lease", ""},
		{"gives its lease back", ""},
		{"crashes or gives up", ""},
		{"takes the row", ""},
		{"takes the row", "the lease is lost: stops"},
		{"what is committed becomes durable", ""},
		{"the database crashes", ""},
		{"the stream is made anew", ""},
		{"the stream is restored from an older copy", ""},
		{"finds a loss", ""},
		{"the job queues", ""},
		{"the job sets the partition free", ""},
		{"reads stale", ""},
		{"reads", "a newer owner: stops, the next lease lies above"},
		{"reads", "its own record"},
		{"walks", ""},
		{"claims", ""},
		{"claims", "its mark was made"},
		{"claims", "the row is not as it was left"},
		{"sends", "done"},
		{"sends", "stored"},
		{"sends", "refused"},
		{"sends", "no answer, though stored"},
		{"sends", "no answer, the bytes are held up"},
		{"sends", "the row is not as it was left"},
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
		{Workers: 2, Events: 3, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Progress: true},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, StaleReads: true, Crashes: true, Lagging: true},
		{Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 2, Losses: 1, Crashes: true},
		{Workers: 3, Events: 2, Claim: 1, Acquisitions: 3, Takes: 1},
		{Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 2, StaleReads: true, Crashes: true},
		{Workers: 1, Events: 2, Claim: 1, Acquisitions: 1, Takes: 3, Losses: 1, Crashes: true, Lagging: true},
		{Workers: 1, Events: 2, Claim: 2, Acquisitions: 2, Takes: 3, Losses: 2, Progress: true},
	} {
		explore(t, c, Protocol{})
	}
}

func TestStatesThatCountAsOneBehaveAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Workers: 2, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1, StaleReads: true},
		{Workers: 1, Events: 1, Fail: 1, Claim: 1, Acquisitions: 1, Takes: 2, Crashes: true},
		{Workers: 1, Events: 1, Claim: 1, Acquisitions: 2, Takes: 1, Losses: 1},
	} {
		want := search.Run(&system{Config: c}, c.options())
		got, classes := search.Classify(&system{Config: c, exact: true}, &system{Config: c}, c.options())
		t.Logf("%d states in %d classes", got.States, classes)
		if got.Truncated || want.Truncated || classes != want.States || got.States == want.States {
			t.Errorf("%d states in %d classes, truncated: %v; with the reduction %d states, %v",
				got.States, classes, got.Truncated, want.States, want.Truncated)
		}
	}
}

func TestBoundsAreChecked(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]Config{
		"Workers":      {Workers: 4, Events: 1, Claim: 1, Acquisitions: 1, Takes: 1},
		"Events":       {Workers: 1, Events: 0, Claim: 1, Acquisitions: 1, Takes: 1},
		"Claim":        {Workers: 1, Events: 1, Claim: 8, Acquisitions: 1, Takes: 1},
		"Acquisitions": {Workers: 1, Events: 1, Claim: 1, Acquisitions: 6, Takes: 1},
		"Takes":        {Workers: 1, Events: 1, Claim: 1, Acquisitions: 1},
		"Losses":       {Workers: 1, Events: 1, Claim: 1, Acquisitions: 1, Takes: 1, Losses: 3},
	} {
		if _, err := Explore(c, Protocol{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: error %v, want one that names %s", c, err, field)
		}
	}
}
