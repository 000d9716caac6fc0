package model

import (
	"slices"
	"strings"
	"testing"
)

// variant is a protocol that lacks one precaution.
type variant struct {
	name     string
	protocol Protocol
	breaks   []string
	stale    bool  // it takes stale reads to show
	crashes  bool  // it takes crashes of the database to show
	anew     uint8 // it takes that many more takeovers under one lease to show
}

var variants = []variant{
	{name: "NoExpectation", protocol: Protocol{NoExpectation: true}, breaks: []string{NoDuplicate, OneVoice}},
	{name: "NoFence", protocol: Protocol{NoFence: true}, breaks: []string{Progress}},
	{name: "BlindFence", protocol: Protocol{BlindFence: true}, breaks: []string{NoDuplicate, OneVoice}},
	{name: "FenceWithoutCopy", protocol: Protocol{FenceWithoutCopy: true}, breaks: []string{NoDuplicate}},
	{name: "FenceByEpoch", protocol: Protocol{FenceByEpoch: true}, breaks: []string{NoDuplicate, NothingLost, Placed}, anew: 1},
	{name: "FenceFromMemory", protocol: Protocol{FenceFromMemory: true}, breaks: []string{NoDuplicate}, stale: true},
	{name: "RecordOfOneBatch", protocol: Protocol{RecordOfOneBatch: true}, breaks: []string{NoDuplicate}},
	{name: "RecordWithoutEvents", protocol: Protocol{RecordWithoutEvents: true}, breaks: []string{NoDuplicate}},
	{name: "DecideByRead", protocol: Protocol{DecideByRead: true}, breaks: []string{NoDuplicate}},
	{name: "SkipByRead", protocol: Protocol{SkipByRead: true}, breaks: []string{NoDuplicate, Ascending}},
	{name: "TrustUnknown", protocol: Protocol{TrustUnknown: true}, breaks: []string{NothingLost, Placed}},
	{name: "OldRecordsCount", protocol: Protocol{OldRecordsCount: true}, breaks: []string{Placed}, stale: true, anew: 1},
	{name: "MarkWithoutEpoch", protocol: Protocol{MarkWithoutEpoch: true}, breaks: []string{NoTrespass}},
	{name: "NoFlush", protocol: Protocol{NoFlush: true}, breaks: []string{NoDuplicate}, crashes: true},
	{name: "FlushElsewhere", protocol: Protocol{FlushElsewhere: true}, breaks: []string{NoDuplicate}, crashes: true},
	{name: "ForgetRecord", protocol: Protocol{ForgetRecord: true}, breaks: []string{NoDuplicate}, crashes: true},
}

// Every precaution is needed: without it, an invariant breaks. The traces in README.md are the ones found here.
func TestEveryVariantIsCaught(t *testing.T) {
	t.Parallel()
	text := readme(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r, err := Explore(Config{
				Workers: 2, Events: 3, Claim: 2, Epochs: 2, Takes: 1 + v.anew, StaleReads: v.stale, DatabaseCrashes: v.crashes,
				Progress: true, MaxStates: 50_000,
			}, v.protocol)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, b := range r.Broken {
				title := v.name + " breaks " + b.Invariant
				shown := "```trace\n" + title + "\n" + traceText(b.Trace) + "```"
				t.Logf("after %d steps\n%s", len(b.Trace), shown)
				if strings.Contains(text, title) && !strings.Contains(text, shown) {
					t.Errorf("README.md shows another trace of: %s", title)
				}
				names = append(names, b.Invariant)
			}
			want := slices.Clone(v.breaks)
			slices.Sort(names)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("breaks %q, want %q (%d states)", names, want, r.States)
			}
			if !strings.Contains(text, "`"+v.name+"`") {
				t.Errorf("README.md does not mention %s", v.name)
			}
		})
	}
}
