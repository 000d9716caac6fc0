package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/part"
)

// fixture is a module with a sum that is tested in several ways.
var fixture = map[string]string{
	"go.mod":        "module fixture\n\ngo 1.26\n",
	"sum/one.txt":   "1",
	"sum/sum.go":    "package sum\n\nimport _ \"embed\"\n\n//go:embed one.txt\nvar One string\n\nfunc Sum(a, b int) int { return a + b }\n",
	"show/show.go":  "package main\n\nimport \"fixture/sum\"\n\nfunc main() { println(sum.Sum(1, 2)) }\n",
	"sum/s_test.go": fixtureTests,
}

const fixtureTests = `package sum

import (
	"os/exec"
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	t.Log("sum 3 is looked at")
	if got := Sum(1, 2); got != 3 {
		t.Errorf("sum %d, want 3", got)
	}
}

func TestEmbedded(t *testing.T) {
	if One != "1" {
		t.Fatal("one is " + One)
	}
}

func TestBuilt(t *testing.T) {
	if out, err := exec.Command("go", "run", "fixture/show").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "3" {
		t.Fatalf("shown %s: %v", out, err)
	}
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

func TestBroken(t *testing.T) { t.Error("always") }
`

func fixtureLab(t *testing.T, progress io.Writer) *lab {
	t.Helper()
	folder := t.TempDir()
	for name, text := range fixture {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := newLab(t.Context(), filepath.Join(folder, "sum"), progress)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something is left: %v", err)
		}
	})
	return l
}

func sumMutant(name, after string) mutant {
	return mutant{
		name: name, promise: "P1", breaks: "the sum", says: "^s_test.go:[0-9]+: sum [0-9-]+, want 3", limit: time.Minute,
		edits: []edit{{"sum/sum.go", "return a + b", after}}, test: command{pkg: "sum", run: "^TestSum$"},
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	hang := func(name string, declared bool) mutant {
		m := sumMutant(name, "select {}; return 0")
		m.hangs, m.limit = declared, 2*time.Second
		return m
	}
	inProgram := sumMutant("seen by a program that a test builds", "return a - b")
	inProgram.test.run, inProgram.says = "^TestBuilt$", "shown -1"
	text := sumMutant("embedded text", "")
	text.edits = []edit{{"sum/one.txt", "1", "2"}}
	text.test.run, text.says = "^TestEmbedded$", "one is 2"
	logged := sumMutant("fails, but says only what a log says", "return a - b")
	logged.says = "is looked at"
	crash := sumMutant("panics", `panic("no sum")`)
	crash.says = "^panic: no sum"
	cases := []struct {
		mutant
		want verdict
	}{
		{sumMutant("noticed", "return a - b"), caught},
		{inProgram, caught},
		{text, caught},
		{crash, caught},
		{hang("hangs as declared", true), caught},
		{sumMutant("no change that matters", "return b + a"), survived},
		{sumMutant("does not compile", "return c"), uncompiled},
		{hang("hangs", false), timedOut},
		{logged, otherwise},
	}
	mutants := make([]mutant, len(cases))
	for i, c := range cases {
		mutants[i] = c.mutant
	}
	var progress bytes.Buffer
	results, err := fixtureLab(t, &progress).tryAll(t.Context(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if r := results[i]; r.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, r.Verdict, r.How, c.want)
		}
	}
	if err := survivors(results); !errors.Is(err, errSurvivors) || strings.Contains(err.Error(), "noticed") || !strings.Contains(err.Error(), "no change that matters, ") {
		t.Errorf("the survivors: %v", err)
	}
	if err := survivors(results[:5]); err != nil {
		t.Errorf("all are caught, but %v", err)
	}
	var table bytes.Buffer
	if err := printTable(&table, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 of 9 mutants caught\n", "TestSum  ", "s_test.go:12: sum -1, want 3 ", "SURVIVED", "DOES NOT COMPILE"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if n := strings.Count(progress.String(), "no change that matters: SURVIVED"); n != 2 {
		t.Errorf("a survivor was tried %d times, want once beside others and once alone:\n%s", n, progress.String())
	}
	if !strings.Contains(progress.String(), "undefined: c") {
		t.Errorf("the compiler's complaint is not shown:\n%s", progress.String())
	}
}

// What cannot mean anything ends the run before any mutant is tried.
func TestNothingIsTriedInVain(t *testing.T) {
	t.Parallel()
	moved, twice := sumMutant("moved", "0"), sumMutant("twice", "0")
	moved.edits[0].before = "return a * b"
	twice.edits[0].before = "m"
	nowhere := sumMutant("nowhere", "0")
	nowhere.edits[0].file = "gone.go"
	silent := sumMutant("silent", "return a - b")
	silent.says = ""
	aimless := sumMutant("aimless", "return a - b")
	aimless.promise = ""
	none, skipped, broken := sumMutant("none", "return a - b"), sumMutant("skipped", "return a - b"), sumMutant("broken", "return a - b")
	none.test.run, skipped.test.run, broken.test.run = "^TestNobody$", "^TestSkipped$", "^TestBroken$"
	l := fixtureLab(t, io.Discard)
	for _, c := range []struct {
		mutant
		wraps error
		says  string
	}{
		{moved, errMisfit, "moved: "},
		{twice, errMisfit, "occurs"},
		{nowhere, errMisfit, "gone.go"},
		{silent, nil, "silent: "},
		{aimless, nil, "the promise"},
		{none, errBaseline, "no tests to run"},
		{skipped, errBaseline, "TestSkipped"},
		{broken, errBaseline, "always"},
	} {
		results, err := l.tryAll(t.Context(), []mutant{c.mutant})
		if err == nil || results != nil || c.wraps != nil && !errors.Is(err, c.wraps) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What make test has just passed is not run without mutants first; what it does not run is.
func TestWhatHasPassedIsNotRunFirst(t *testing.T) {
	t.Parallel()
	broken := sumMutant("broken", "return a - b")
	broken.test.run = "^TestBroken$"
	l := fixtureLab(t, io.Discard)
	l.passed = true
	if results, err := l.tryAll(t.Context(), []mutant{broken}); err != nil || len(results) != 1 {
		t.Errorf("%v, %v", results, err)
	}
	broken.test.env = "SETTING=1"
	if _, err := l.tryAll(t.Context(), []mutant{broken}); !errors.Is(err, errBaseline) {
		t.Errorf("with a setting of its own: %v", err)
	}
}

func TestChoose(t *testing.T) {
	t.Setenv(part.Variable, "")
	all := []mutant{{name: "naive-cursor"}, {name: "blind-fence"}}
	if got, err := choose(all, "fence$"); err != nil || len(got) != 1 || got[0].name != "blind-fence" {
		t.Errorf("chosen %v, %v", got, err)
	}
	for _, bad := range []string{"(", "nothing"} {
		if _, err := choose(all, bad); err == nil || !strings.Contains(err.Error(), "-run") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	chosen := 0
	for _, third := range []string{"1/3", "2/3", "3/3"} {
		t.Setenv(part.Variable, third)
		some, err := choose(all, "")
		if (err == nil) != (len(some) > 0) {
			t.Errorf("%s: chosen %v, %v", third, some, err)
		}
		chosen += len(some)
	}
	if chosen != len(all) {
		t.Errorf("three parts choose %d of %d", chosen, len(all))
	}
}
