package prefix

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/tools/model/search"
)

// explore visits the states of the protocol itself and expects no counterexample, and the figures in doc.go.
func explore(t *testing.T, c Config) Result {
	t.Helper()
	started := time.Now()
	r, err := Explore(c, Protocol{})
	if err != nil {
		t.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%+v: %s states, %s steps, depth %d, %s finished; %v, %s taken from the system", c,
		humanize.Comma(int64(r.States)), humanize.Comma(int64(r.Steps)), r.Depth, humanize.Comma(int64(r.Finished)),
		time.Since(started).Round(time.Millisecond), humanize.IBytes(memory.Sys))
	for _, b := range r.Broken {
		t.Errorf("broken: %s\n%s", b.Invariant, traceText(b.Trace))
	}
	if r.Truncated {
		t.Error("the exploration left steps out")
	}
	if r.Finished == 0 {
		t.Error("no state in which everything is done: the model shows nothing")
	}
	if figures := humanize.Comma(int64(r.States)); !strings.Contains(doc(t), " "+figures+"\n") {
		t.Errorf("doc.go does not have the figure %s", figures)
	}
	return r
}

func doc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheProtocolKeepsItsPromises(t *testing.T) {
	t.Parallel()
	r := explore(t, Config{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 1, Failovers: 1, StaleReads: true, Progress: true})
	for _, h := range [][2]string{
		{"the lease runs out", ""},
		{"renews its lease", ""},
		{"gives its lease back", ""},
		{"crashes or gives up", ""},
		{"the database fails over", ""},
		{"the standby catches up", ""},
		{"reads stale", ""},
		{"reads", "a newer owner: stops, the next lease lies above"},
		{"reads", "its own fence: stands"},
		{"reads", "its own batch: stored"},
		{"reads", "a newer owner: fenced, stops"},
		{"settles", ""},
		{"settles", "the lease is lost: stops"},
		{"fails", ""},
		{"makes a batch of", ""},
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

// A standby that lags behind loses acquisitions, too: two workers may hold leases of one epoch.
func TestAStandbyMayLagBehind(t *testing.T) {
	t.Parallel()
	explore(t, Config{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 1, Failovers: 1, Lagging: true})
}

func TestRowsMayBeReclaimedAtAnyTime(t *testing.T) {
	t.Parallel()
	explore(t, Config{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 1, Failovers: 1, Reclaim: true})
}

func TestFurtherBounds(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	for _, c := range []Config{
		{Workers: 2, Events: 3, Fail: 3, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 1, Failovers: 1, StaleReads: true, Progress: true},
		{Workers: 3, Events: 2, Fail: 1, Claim: 2, Acquisitions: 3, Takes: 1, LateMarks: 1, Failovers: 1},
		{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 2, Failovers: 2, Lagging: true, Reclaim: true},
	} {
		explore(t, c)
	}
}

// variants lack one precaution each.
var variants = []struct {
	name     string
	protocol Protocol
	breaks   []string
	change   func(*Config) // what it takes to show
}{
	{"NoExpectation", Protocol{NoExpectation: true}, []string{NoDuplicate, Ascending, OneVoice}, nil},
	{"NoFence", Protocol{NoFence: true}, []string{CanFinish}, nil},
	{"BlindFence", Protocol{BlindFence: true}, []string{NoDuplicate, Ascending, OneVoice}, nil},
	{"FenceWithoutCopy", Protocol{FenceWithoutCopy: true}, []string{NoDuplicate, Ascending}, nil},
	{"FenceByEpoch", Protocol{FenceByEpoch: true}, []string{NothingLost, Ascending, NoDuplicate, Placed}, func(c *Config) { c.Takes = 2 }},
	{"DecideByRead", Protocol{DecideByRead: true}, []string{NoDuplicate, Ascending}, nil},
	{"TrustUnknown", Protocol{TrustUnknown: true}, []string{NothingLost, Placed}, nil},
	{"MarkInTheAir", Protocol{MarkInTheAir: true}, []string{NothingLost}, nil},
	{"MarkWithoutOwner", Protocol{MarkWithoutOwner: true}, []string{NoTrespass}, nil},
	{"ParkAgain", Protocol{ParkAgain: true}, []string{CanFinish}, nil},
	{"PassHoles", Protocol{PassHoles: true}, []string{NothingLost}, nil},
	{"OwnHolesOnly", Protocol{OwnHolesOnly: true}, []string{NothingLost, Ascending, Placed}, nil},
	{"NoHoles", Protocol{NoHoles: true}, []string{NothingLost, Ascending, Placed}, nil},
	{"TrustParked", Protocol{TrustParked: true}, []string{NoDuplicate, Ascending}, nil},
	{"ParkedAhead", Protocol{ParkedAhead: true}, []string{NoDuplicate}, func(c *Config) { c.Events, c.Failovers, c.Lagging, c.Progress = 1, 1, true, false }},
	{"TrustReady", Protocol{TrustReady: true}, []string{NoDuplicate, Ascending}, nil},
	{"ReclaimAhead", Protocol{ReclaimAhead: true}, []string{NothingLost}, func(c *Config) { c.Reclaim, c.Failovers = true, 1 }},
}

// Every precaution is needed: without it, an invariant breaks.
func TestEveryVariantIsCaught(t *testing.T) {
	t.Parallel()
	text := doc(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Workers: 2, Events: 2, Fail: 1, Claim: 2, Acquisitions: 2, Takes: 1, LateMarks: 1, Progress: true, MaxStates: 100_000}
			if v.change != nil {
				v.change(&c)
			}
			r, err := Explore(c, v.protocol)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, b := range r.Broken {
				t.Logf("after %d steps: %s\n%s", len(b.Trace), b.Invariant, traceText(b.Trace))
				names = append(names, b.Invariant)
			}
			slices.Sort(names)
			want := slices.Sorted(slices.Values(v.breaks))
			if len(names) == 0 || !slices.Equal(names, want) {
				t.Errorf("breaks %q, want %q (%d states, truncated: %t)", names, want, r.States, r.Truncated)
			}
			if !strings.Contains(text, v.name) {
				t.Errorf("doc.go does not mention %s", v.name)
			}
		})
	}
}

// Without taking states for the same there are as many classes as states with it.
func TestStatesThatCountAsOneBehaveAlike(t *testing.T) {
	t.Parallel()
	c := Config{Workers: 2, Events: 1, Fail: 1, Claim: 1, Acquisitions: 2, Takes: 1, LateMarks: 1, Failovers: 1}
	want := search.Run(&system{Config: c}, search.Options{})
	exact := &classifying{system: &system{Config: c, exact: true}, reduced: &system{Config: c}, classes: map[string]bool{}}
	got := search.Run(exact, search.Options{})
	t.Logf("%d states in %d classes", got.States, len(exact.classes))
	if got.Truncated || want.Truncated || len(exact.classes) != want.States || got.States == want.States {
		t.Errorf("%d states in %d classes, truncated: %t; with the reduction %d states", got.States, len(exact.classes), got.Truncated, want.States)
	}
}

// classifying takes no states for the same, and counts how many there would be.
type classifying struct {
	*system

	reduced *system
	classes map[string]bool
}

// Key implements search.System.
func (x *classifying) Key(s *State, key []byte) []byte {
	x.classes[string(x.reduced.Key(s, nil))] = true
	return x.system.Key(s, key)
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
