package measure

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/ledger"
)

func TestDatasetHasExactBodies(t *testing.T) {
	t.Parallel()
	for _, size := range []int{leastBody, 500, 2000} {
		d, err := readDataset(testData, size)
		if err != nil {
			t.Fatal(err)
		}
		last, versions := eventID(0), map[string]int64{}
		for i := range 2*len(d.lines) + 10 {
			e := d.at(i)
			if len(e.payload) != size || i < 500 && !json.Valid(e.payload) {
				t.Fatalf("event %d of %d bytes: %d, %s", i, size, len(e.payload), e.payload)
			}
			if i > 0 && e.id.String() <= last.String() {
				t.Fatalf("id %s of event %d is not behind %s", e.id, i, last)
			}
			if versions[e.stream]++; e.version != versions[e.stream] {
				t.Fatalf("event %d is version %d of %s, want %d", i, e.version, e.stream, versions[e.stream])
			}
			if e.stream != d.stream(i) {
				t.Fatalf("event %d: stream %s and %s", i, e.stream, d.stream(i))
			}
			last = e.id
		}
	}
}

// What a stream may and may not hold of 100 seeded events.
func TestCheck(t *testing.T) {
	t.Parallel()
	data, err := readDataset(testData, 500)
	if err != nil {
		t.Fatal(err)
	}
	const events, partitions = 100, 4
	d := &database{shape: shape{partitions: partitions, events: events}, data: data}
	whole := func() []ledger.Message {
		var list []ledger.Message
		for i := range events {
			e := data.entry(i, partitions, true)
			list = append(list, ledger.Message{
				EventID: e.EventID, Stream: e.Stream, StreamVersion: e.Version, Sequence: e.Sequence, Partition: e.Partition, BodyHash: e.BodyHash,
				StreamSequence: uint64(i + 1),
			})
		}
		return list
	}
	samePartition := func(list []ledger.Message) (int, int) {
		for j := 1; ; j++ {
			if list[j].Partition == list[0].Partition {
				return 0, j
			}
		}
	}
	for _, one := range []struct {
		name    string
		change  func([]ledger.Message) []ledger.Message
		partial bool
		fits    bool
	}{
		{"all", func(l []ledger.Message) []ledger.Message { return l }, false, true},
		{"nothing", func([]ledger.Message) []ledger.Message { return nil }, false, false},
		{"the last is missing", func(l []ledger.Message) []ledger.Message { return l[:events-1] }, false, false},
		{"one is missing", func(l []ledger.Message) []ledger.Message { return slices.Delete(l, 3, 4) }, false, false},
		{"one came twice", func(l []ledger.Message) []ledger.Message {
			again := l[5]
			again.StreamSequence = events + 1
			return append(l, again)
		}, false, false},
		{"two changed places", func(l []ledger.Message) []ledger.Message {
			i, j := samePartition(l)
			l[i], l[j] = l[j], l[i]
			l[i].StreamSequence, l[j].StreamSequence = l[j].StreamSequence, l[i].StreamSequence
			return l
		}, false, false},
		{"a body is another", func(l []ledger.Message) []ledger.Message { l[9].BodyHash++; return l }, false, false},
		{"a part, complete", func(l []ledger.Message) []ledger.Message { return l[:40] }, true, true},
		{"a part with a hole", func(l []ledger.Message) []ledger.Message {
			i, _ := samePartition(l)
			return slices.Delete(l[:40], i, i+1)
		}, true, false},
		{"a foreign event", func(l []ledger.Message) []ledger.Message {
			e := data.entry(events, partitions, true)
			return append(l, ledger.Message{EventID: e.EventID, Stream: e.Stream, StreamVersion: e.Version, Sequence: e.Sequence, Partition: e.Partition})
		}, false, false},
	} {
		if err := d.check(one.change(whole()), ledger.ByPartition, events, one.partial); (err == nil) != one.fits {
			t.Errorf("%s: %v", one.name, err)
		} else if err != nil && !errors.Is(err, ErrUnproved) {
			t.Errorf("%s: %v", one.name, err)
		}
	}
}

// Ratios are taken within a round: a machine that is half as fast in the second one changes none.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	sample := func(v float64) Sample { return Sample{Values: map[string]float64{ValueRate: v}} }
	r := Result{Main: ValueRate, Cases: []*CaseResult{
		{Name: "base", Samples: []Sample{sample(200), sample(100), sample(400)}},
		{Name: "other", Base: "base", Samples: []Sample{sample(180), sample(90), sample(360)}},
	}}
	r.conclude()
	if got := r.Cases[1].Ratios[ValueRate]; got.Median < 0.899 || got.Least < 0.899 || got.Most > 0.901 {
		t.Errorf("ratio %+v", got)
	}
	if got := r.Cases[0].Values[ValueRate]; got != (Spread{200, 100, 400}) {
		t.Errorf("spread %+v", got)
	}
	if r.Cases[0].Ratios != nil {
		t.Errorf("the base has ratios: %v", r.Cases[0].Ratios)
	}
	if got := spreadOf([]float64{4, 1, 3, 2}); got != (Spread{2.5, 1, 4}) {
		t.Errorf("of four: %+v", got)
	}
}

// What this process burns is its own and not foreign.
// Who comes second in one round comes first in the next.
func TestRoundsChangeTheirDirection(t *testing.T) {
	t.Parallel()
	for round, want := range [][]int{{0, 1, 2}, {2, 1, 0}, {0, 1, 2}} {
		if got := turns(3, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

func TestUseOfProcessors(t *testing.T) {
	t.Parallel()
	r := roles{roleBench: {{os.Getpid(), true}}}
	before, err := r.measure()
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		n++
	}
	after, err := r.measure()
	if err != nil {
		t.Fatal(err)
	}
	used := after.since(before)
	if used.roles[roleBench] <= 0 || used.foreign > 1 || used.percent(roleBench) <= 0 || used.perEvent(roleBench, n) <= 0 {
		t.Errorf("%+v", used)
	}
	if mib, err := peakMemory(os.Getpid()); err != nil || mib < 1 {
		t.Errorf("%g MiB, %v", mib, err)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0.00", 0.123: "0.12", 12.34: "12.3", 123.4: "123", 1234: "1,234", 1234567: "1,234,567", 999999: "999,999"} {
		if got := Figure(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

// Every base is a case of its scenario, and comes before those that are compared with it; names differ.
func TestScenariosAreWhole(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		cfg, err := Config{Quick: quick, Data: testData}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range Scenarios() {
			seen := map[string]bool{"": true}
			for _, c := range s.cases(cfg) {
				if !seen[c.Base] || seen[c.Name] {
					t.Errorf("%s: %q with base %q", s.Name, c.Name, c.Base)
				}
				seen[c.Name] = true
			}
			kept := matching(s.cases(cfg), "postrider")
			for _, c := range kept {
				if c.Base == "" && !strings.Contains(c.Name, "postrider") && !slices.ContainsFunc(kept, func(o Case) bool { return o.Base == c.Name }) {
					t.Errorf("%s: %s is kept for nothing", s.Name, c.Name)
				}
			}
		}
	}
}
