package loop

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// The drawing in doc.go is the table.
func TestTheStagesAreDrawn(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[state][]state{}
	for _, line := range regexp.MustCompile(`(?m)^//\t([a-z]+) +─▶ ([a-z]+(?:, [a-z]+)*)`).FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(line[2], ", ") {
			drawn[state(line[1])] = append(drawn[state(line[1])], state(name))
		}
	}
	if !maps.EqualFunc(drawn, transitions, slices.Equal[[]state]) {
		t.Errorf("doc.go draws %v, the table is %v", drawn, transitions)
	}
}

// What shows while something is under way ends in a takeover, whatever comes of it; at rest it does so at once.
func TestWhatMayBeWrongIsTakenAnew(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		name string
		does func(*partitionState)
		busy bool
	}{
		{"before its first takeover", func(*partitionState) {}, false},
		{"in a takeover", func(f *partitionState) { f.begin() }, true},
		{"ready", func(f *partitionState) { f.begin(); f.end(true) }, false},
		{"between claim and mark", func(f *partitionState) { f.begin(); f.end(true); f.begin() }, true},
	} {
		f := &partitionState{state: fresh, term: &term{after: 7}}
		at.does(f)
		f.more = true
		f.retake()
		if f.busy() != at.busy || f.after != nowhere {
			t.Errorf("%s: it is %s, behind %d", at.name, f.state, f.after)
		}
		if at.busy {
			f.end(true)
		}
		if f.state != fresh || f.retaking || f.begin() != taking {
			t.Errorf("%s: it is not taken anew: %+v", at.name, f)
		}
	}
}

// A takeover that fails is begun again, and one under another lease knows nothing of the one before.
func TestATakeoverIsOfOneLease(t *testing.T) {
	t.Parallel()
	r := &Relay{partitions: map[partition.ID]*partitionState{}}
	one := leasetest.Held(1, 1)
	f := r.stateOf(one)
	if f.begin(); f.state != taking {
		t.Fatalf("it is %s", f.state)
	}
	if f.end(false); f.begin() != taking {
		t.Errorf("after a takeover that failed it is %s", f.state)
	}
	f.end(true)
	f.after, f.stream, f.refusals = 7, 9, 1
	if again := r.stateOf(one); again != f || f.state != ready || f.after != 7 {
		t.Errorf("under the same lease it is %+v", again)
	}
	if next := r.stateOf(leasetest.Held(1, 2)); next.state != fresh || next.after != nowhere || next.stream != 0 || next.refusals != 1 {
		t.Errorf("under another lease it is %+v", next)
	}
}

func TestAStepThatIsNotInTheTableEndsTheProgram(t *testing.T) {
	t.Parallel()
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "from fresh to publishing") {
			t.Errorf("it says %q", text)
		}
	}()
	(&partitionState{state: fresh}).to(publishing)
}
