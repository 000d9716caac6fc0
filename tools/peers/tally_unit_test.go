package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/ledger"
)

// A tally counts what is lost, late, reordered and doubled, and after which fault.
func TestATallyCounts(t *testing.T) {
	t.Parallel()
	l := ledger.New()
	y := newTally(t, l)
	var messages []ledger.Message
	for n := range 6 {
		e := ledger.Entry{EventID: uuid.New(), Stream: []string{"a", "b"}[n%2], Version: int64(n/2 + 1), Sequence: int64(n + 1), Partition: 3}
		l.Committed([]ledger.Entry{e}, time.Now())
		messages = append(messages, ledger.Message{
			EventID: e.EventID, Stream: e.Stream, StreamVersion: e.Version, Sequence: e.Sequence, Partition: e.Partition,
		})
	}
	l.Finish()
	stored := uint64(0)
	receive := func(numbers ...int) {
		for _, n := range numbers {
			stored++
			m := messages[n]
			m.StreamSequence = stored
			y.receive(m)
		}
	}
	receive(1, 0) // order of the partition alone
	y.begins("SIGKILL")
	receive(3, 3)
	y.begins("SIGSTOP")
	receive(4, 2, 4)
	y.begins(drain)
	got := y.result(relay{name: "r"}, map[string]int{"SIGKILL": 1, "SIGSTOP": 1}, nil)
	if got.Events != 6 || got.Lost != 1 || got.Late != 0 || got.Reordered != 1 || got.PartitionReversals != 2 || got.Doubled != 2 || got.kept() {
		t.Errorf("%+v", got)
	}
	if want := map[string]breach{"SIGKILL": {Doubled: 1}, "SIGSTOP": {Reordered: 1, Doubled: 1}}; !reflect.DeepEqual(got.After, want) {
		t.Errorf("after the faults: %v, want %v", got.After, want)
	}
	if got.Standstill <= 0 || got.StandstillAfter == "" {
		t.Errorf("no standstill: %+v", got)
	}
	if late := y.result(relay{}, nil, []uuid.UUID{messages[5].EventID, messages[0].EventID}); late.Late != 1 || late.Lost != 0 {
		t.Errorf("what the relay still has is not late: %+v", late)
	}
}

// Any breach is one, and so is a run in which nothing happened.
func TestABreachIsABreach(t *testing.T) {
	t.Parallel()
	if !(result{Events: 1}).kept() {
		t.Error("nothing is wrong, and yet nothing is kept")
	}
	for _, r := range []result{
		{},
		{Events: 1, Lost: 1},
		{Events: 1, Late: 1},
		{Events: 1, Reordered: 1},
		{Events: 1, PartitionReversals: 1},
		{Events: 1, Doubled: 1},
		{Events: 1, Other: 1},
	} {
		if r.kept() {
			t.Errorf("%+v is taken for a promise kept", r)
		}
	}
}

// The table fits a terminal, and says after which faults promises were broken.
func TestTheTableFits(t *testing.T) {
	t.Parallel()
	f := findings{Results: []result{{
		Relay: "River, one at a time", Faults: map[string]int{"SIGKILL": 9, "SIGSTOP": 9}, Events: 123_456, Lost: 12, Late: 345, Reordered: 12_345,
		PartitionReversals: 12_345, Doubled: 1_234, Standstill: 123.4, Longest: 123.4, Restarts: 3, After: map[string]breach{"SIGSTOP": {Doubled: 1_234}, calm: {}},
	}}}
	var text strings.Builder
	f.table(&text)
	for line := range strings.Lines(text.String()) {
		if len([]rune(line)) > 81 {
			t.Errorf("%d columns: %s", len([]rune(line))-1, line)
		}
	}
	for _, want := range []string{" 18 ", "SIGSTOP: 0 reordered, 1234 doubled", "3 processes ended by themselves"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), calm) {
		t.Errorf("it tells of what did not happen:\n%s", text.String())
	}
}

// The seed decides the order of the faults, in which each comes before one comes again.
func TestThePlanIsTheSeeds(t *testing.T) {
	t.Parallel()
	one := planned(7, 10*time.Minute)
	if !reflect.DeepEqual(one, planned(7, 10*time.Minute)) || reflect.DeepEqual(one, planned(8, 10*time.Minute)) {
		t.Error("the seed does not decide the plan")
	}
	for _, s := range deck() {
		if !slices.Contains(one[:len(deck())], s) {
			t.Errorf("%v does not come in the first round", s)
		}
	}
	if short := planned(7, 2*time.Minute); len(short) >= len(one) || !reflect.DeepEqual(short, one[:len(short)]) {
		t.Error("a shorter plan is another one")
	}
}
