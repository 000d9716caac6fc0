package walk

import (
	"fmt"
	"strings"
	"testing"
)

// What it takes to show that a precaution is missing, besides two workers, two events and two acquisitions.
func anew(c *Config)    { c.Takes = 2 }
func fails(c *Config)   { c.Events, c.Fail = 3, 1 }
func crashes(c *Config) { c.Crashes = true }
func loses(c *Config)   { c.Losses, c.Progress = 1, false }
func alone(c *Config)   { c.Workers, c.Acquisitions, c.Takes = 1, 1, 3 }
func lagging(c *Config) { c.Events, c.Crashes, c.Lagging, c.Progress = 1, true, true, false }

// variants are protocols that lack one precaution each.
var variants = []struct {
	name     string
	protocol Protocol
	needs    []func(*Config)
}{
	{"NoExpectation", Protocol{NoExpectation: true}, nil},
	{"NoRecord", Protocol{NoRecord: true}, []func(*Config){anew}},
	{"BlindRecord", Protocol{BlindRecord: true}, nil},
	{"RecordByEpoch", Protocol{RecordByEpoch: true}, []func(*Config){anew}},
	{"EqualEpoch", Protocol{EqualEpoch: true}, []func(*Config){lagging}},
	{"NoWalk", Protocol{NoWalk: true}, nil},
	{"WalkFirst", Protocol{WalkFirst: true}, nil},
	{"WalkToAnyEnd", Protocol{WalkToAnyEnd: true}, nil},
	{"PositionByNumber", Protocol{PositionByNumber: true}, []func(*Config){loses, crashes}},
	{"SendAgain", Protocol{SendAgain: true}, nil},
	{"ClaimAgain", Protocol{ClaimAgain: true}, nil},
	{"TrustUnknown", Protocol{TrustUnknown: true}, nil},
	{"SameTake", Protocol{SameTake: true}, []func(*Config){anew}},
	{"MarkComparesNothing", Protocol{MarkComparesNothing: true}, []func(*Config){crashes}},
	{"TakeAlone", Protocol{TakeAlone: true}, []func(*Config){crashes}},
	{"ClaimComparesNothing", Protocol{ClaimComparesNothing: true}, []func(*Config){crashes}},
	{"MarkGrows", Protocol{MarkGrows: true}, nil},
	{"MarkInTheAir", Protocol{MarkInTheAir: true}, nil},
	{"ClaimPending", Protocol{ClaimPending: true}, nil},
	{"GoOnPastFailed", Protocol{GoOnPastFailed: true}, []func(*Config){fails}},
	{"HealBeside", Protocol{HealBeside: true}, []func(*Config){loses}},
	{"EndEarly", Protocol{EndEarly: true}, []func(*Config){loses}},
	{"EndAtTheEnd", Protocol{EndAtTheEnd: true}, []func(*Config){loses, lagging, alone}},
}

// names are short for the invariants.
var names = map[string]string{
	NoDuplicate: "NoDuplicate", InStream: "InStream", Ascending: "Ascending", OneVoice: "OneVoice", NothingLost: "NothingLost",
	Placed: "Placed", Covered: "Covered", CanFinish: "CanFinish",
}

// Every precaution is needed: without it, an invariant breaks. figures.golden has the first ones, up to a promise, and
// the steps to each.
func TestEveryVariantIsCaught(t *testing.T) {
	t.Parallel()
	text := figures(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Workers: 2, Events: 2, Claim: 2, Acquisitions: 2, Takes: 1, Progress: true, MaxStates: 100_000}
			for _, need := range v.needs {
				need(&c)
			}
			r, err := Explore(c, v.protocol)
			if err != nil {
				t.Fatal(err)
			}
			row, promise := "", false
			for _, b := range r.Broken {
				t.Logf("%s breaks %s after %d steps\n%s", v.name, b.Invariant, len(b.Trace), traceText(b.Trace))
				if !promise {
					row += fmt.Sprintf(" %s %d", names[b.Invariant], len(b.Trace))
				}
				promise = promise || strings.HasPrefix(b.Invariant, "P")
			}
			if row = fmt.Sprintf("%-20s%s\n", v.name, row); len(r.Broken) == 0 || !strings.Contains(text, row) {
				t.Errorf("figures.golden does not say: %s", row)
			}
		})
	}
}
