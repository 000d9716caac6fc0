package delivery

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
	drawn := map[stage][]stage{}
	for _, line := range regexp.MustCompile(`(?m)^//\t([a-z]+) +─▶ ([a-z]+(?:, [a-z]+)*)`).FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(line[2], ", ") {
			drawn[stage(line[1])] = append(drawn[stage(line[1])], stage(name))
		}
	}
	if !maps.EqualFunc(drawn, steps, slices.Equal[[]stage]) {
		t.Errorf("doc.go draws %v, the table is %v", drawn, steps)
	}
}

// What shows while something is under way ends in a takeover, whatever comes of it; at rest it does so at once.
func TestWhatMayBeWrongIsTakenAnew(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		name string
		does func(*flow)
		busy bool
	}{
		{"before its first takeover", func(*flow) {}, false},
		{"in a takeover", func(f *flow) { f.begin() }, true},
		{"ready", func(f *flow) { f.begin(); f.end(true) }, false},
		{"between claim and mark", func(f *flow) { f.begin(); f.end(true); f.begin() }, true},
	} {
		f := &flow{stage: fresh, tenure: &tenure{after: 7}}
		at.does(f)
		f.again = true
		f.anew()
		if f.busy() != at.busy || f.after != nowhere {
			t.Errorf("%s: it is %s, behind %d", at.name, f.stage, f.after)
		}
		if at.busy {
			f.end(true)
		}
		if f.stage != fresh || f.stale || f.begin() != taking {
			t.Errorf("%s: it is not taken anew: %+v", at.name, f)
		}
	}
}

// A takeover that fails is begun again, and one under another lease knows nothing of the one before.
func TestATakeoverIsOfOneLease(t *testing.T) {
	t.Parallel()
	r := &Relay{flows: map[partition.ID]*flow{}}
	one := leasetest.Held(1, 1)
	f := r.flowOf(one)
	if f.begin(); f.stage != taking {
		t.Fatalf("it is %s", f.stage)
	}
	if f.end(false); f.begin() != taking {
		t.Errorf("after a takeover that failed it is %s", f.stage)
	}
	f.end(true)
	f.after, f.stream, f.refusals = 7, 9, 1
	if again := r.flowOf(one); again != f || f.stage != ready || f.after != 7 {
		t.Errorf("under the same lease it is %+v", again)
	}
	if next := r.flowOf(leasetest.Held(1, 2)); next.stage != fresh || next.after != nowhere || next.stream != 0 || next.refusals != 1 {
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
	(&flow{stage: fresh}).to(publishing)
}
