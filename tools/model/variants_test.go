package model

import (
	"fmt"
	"strings"
	"testing"
)

// What it takes to show that a precaution is missing, besides two workers, three events and two acquisitions.
func anew(c *Config)    { c.Takes = 2 }
func stale(c *Config)   { c.StaleReads = true }
func fails(c *Config)   { c.Fail = 1 }
func crashes(c *Config) { c.Crashes = true }
func cursor(c *Config)  { c.Fail, c.Cursor = 1, true }
func reclaim(c *Config) { c.Reclaim = true }
func compare(c *Config) {
	c.Workers, c.Acquisitions, c.Crashes, c.Compare, c.Progress = 1, 1, true, true, false
}
func later(c *Config)   { c.Fail = 2 }
func singles(c *Config) { c.Events, c.Singles = 2, true }
func few(c *Config)     { c.Events = 2 }
func torn(c *Config)    { c.Events, c.Torn = 2, true }
func lagging(c *Config) { c.Events, c.Crashes, c.Lagging, c.Progress = 1, true, true, false }

// variants are protocols that lack one precaution each.
var variants = []struct {
	name     string
	protocol Protocol
	needs    []func(*Config)
}{
	{"NoExpectation", Protocol{NoExpectation: true}, nil},
	{"NoFence", Protocol{NoFence: true}, nil},
	{"BlindFence", Protocol{BlindFence: true}, nil},
	{"FenceByEpoch", Protocol{FenceByEpoch: true}, []func(*Config){anew}},
	{"RecordWithoutEvents", Protocol{RecordWithoutEvents: true}, nil},
	{"DecideByRead", Protocol{DecideByRead: true}, nil},
	{"FailByRead", Protocol{FailByRead: true}, nil},
	{"TrustUnknown", Protocol{TrustUnknown: true}, nil},
	{"OldRecordsCount", Protocol{OldRecordsCount: true}, []func(*Config){stale}},
	{"SingleWithoutExpectation", Protocol{SingleWithoutExpectation: true}, []func(*Config){singles}},
	{"SendAgain", Protocol{SendAgain: true}, []func(*Config){singles}},
	{"NoClosing", Protocol{NoClosing: true}, []func(*Config){singles, crashes}},
	{"SkipAnnounced", Protocol{SkipAnnounced: true}, []func(*Config){singles}},
	{"MeetFirst", Protocol{MeetFirst: true}, []func(*Config){singles}},
	{"FenceForgets", Protocol{FenceForgets: true}, []func(*Config){singles, anew}},
	{"TrustRecords", Protocol{TrustRecords: true}, []func(*Config){torn}},
	{"AcceptTorn", Protocol{AcceptTorn: true}, []func(*Config){torn}},
	{"LastRecordOnly", Protocol{LastRecordOnly: true}, nil},
	{"WalkFirst", Protocol{WalkFirst: true}, nil},
	{"WalkFromMemory", Protocol{WalkFromMemory: true}, []func(*Config){anew, crashes}},
	{"WalkToAnyEnd", Protocol{WalkToAnyEnd: true}, nil},
	{"MarkInTheAir", Protocol{MarkInTheAir: true}, nil},
	{"MarkInParts", Protocol{MarkInParts: true}, nil},
	{"TrustMark", Protocol{TrustMark: true}, nil},
	{"MarkWithoutEpoch", Protocol{MarkWithoutEpoch: true}, nil},
	{"MarkWhereClaimed", Protocol{MarkWhereClaimed: true}, []func(*Config){anew, fails}},
	{"MarkOutlivesSession", Protocol{MarkOutlivesSession: true}, []func(*Config){few, crashes}},
	{"GoOnAfterCrash", Protocol{GoOnAfterCrash: true}, []func(*Config){crashes}},
	{"MarkThroughCrash", Protocol{MarkThroughCrash: true}, []func(*Config){anew, crashes}},
	{"GoOnPastFailed", Protocol{GoOnPastFailed: true}, []func(*Config){fails}},
	{"ClaimPending", Protocol{ClaimPending: true}, nil},
	{"ClaimParked", Protocol{ClaimParked: true}, []func(*Config){anew, fails}},
	{"EqualEpoch", Protocol{EqualEpoch: true}, []func(*Config){lagging}},
	{"PassUnparked", Protocol{PassUnparked: true}, []func(*Config){cursor}},
	{"ParkAgain", Protocol{ParkAgain: true}, []func(*Config){cursor}},
	{"WalkUnparked", Protocol{WalkUnparked: true}, []func(*Config){cursor}},
	{"ReclaimAhead", Protocol{ReclaimAhead: true}, []func(*Config){cursor, reclaim}},
	{"CompareFence", Protocol{CompareFence: true}, []func(*Config){compare, cursor, later}},
	{"ForgetSeen", Protocol{ForgetSeen: true}, []func(*Config){compare, cursor, anew}},
}

// names are short for the invariants.
var names = map[string]string{
	NoDuplicate: "NoDuplicate", InStream: "InStream", Ascending: "Ascending", OneVoice: "OneVoice", NothingLost: "NothingLost",
	NoTrespass: "NoTrespass", Placed: "Placed", Covered: "Covered", CanFinish: "CanFinish",
}

// Every precaution is needed: without it, an invariant breaks. figures.golden says what comes first, up to a
// promise, and how soon.
func TestEveryVariantIsCaught(t *testing.T) {
	t.Parallel()
	text := figures(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Workers: 2, Events: 3, Claim: 2, Acquisitions: 2, Takes: 1, Progress: true, MaxStates: 100_000}
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
