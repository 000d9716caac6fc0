package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// longestLine bounds an event, in bytes; test output arrives line by line.
const longestLine = 16 << 20

// event is a line of `go test -json`, see `go doc test2json`. Build failures come as events of their own.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// testName is a test of a package; the package itself has an empty Test.
type testName struct{ pkg, test string }

// report gathers events.
type report struct {
	out     io.Writer
	counts  tally
	output  map[testName][]string
	running map[testName]bool
	passed  map[testName]bool
	failing map[string]bool // packages in which a test failed
	whole   map[string]bool // failing packages that ran to their end
	reasons map[string]int  // why tests were skipped
	builds  map[string][]string
	races   map[string]*races // by package
	failed  []testName        // tests that failed, in their order
	// failures are the messages of failed tests, without logs.
	failures strings.Builder
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, output: map[testName][]string{}, running: map[testName]bool{}, passed: map[testName]bool{},
		failing: map[string]bool{}, whole: map[string]bool{},
		reasons: map[string]int{}, builds: map[string][]string{}, races: map[string]*races{},
	}
}

func (r *report) printf(format string, arguments ...any) {
	_, _ = fmt.Fprintf(r.out, format, arguments...) // The report has nowhere to complain to.
}

// read takes all events in.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action == "" {
			r.printf("%s\n", lines.Text())
			continue
		}
		r.take(e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	return nil
}

func (r *report) take(e event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "build-fail":
		r.printf("%s", strings.Join(r.builds[e.ImportPath], ""))
	case "run", "start":
		r.running[name] = true
	case "output":
		r.racesOf(e.Package).take(e.Output)
		if e.Test == "" && e.Output == "FAIL\n" { // the last output when all tests have run
			r.whole[e.Package] = true
		}
		// How tests took turns says nothing about why one failed.
		if !strings.HasPrefix(e.Output, "=== ") {
			r.output[name] = append(r.output[name], e.Output)
		}
	case "pass", "fail", "skip":
		delete(r.running, name)
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
		delete(r.output, name)
	}
}

// endTest counts a test and prints it if it failed.
func (r *report) endTest(e event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "pass":
		r.counts.passed++
		r.passed[name] = true
	case "skip":
		r.counts.skipped++
		r.reasons[reason(r.output[name])]++
	case "fail":
		r.failTest(name)
	}
}

// failTest counts and prints a test that failed.
func (r *report) failTest(name testName) {
	r.counts.failed++
	r.failing[name.pkg] = true
	r.failed = append(r.failed, name)
	r.printf("%s", strings.Join(r.output[name], ""))
	r.recall(name)
}

// recall keeps the first messages of a failed test, without its logs.
func (r *report) recall(name testName) {
	const most, width = 8, 400
	_, _ = fmt.Fprintf(&r.failures, "--- %s %s\n", name.pkg, name.test)
	kept := 0
	for _, line := range r.output[name] {
		if !position.MatchString(line) || kept == most {
			continue
		}
		kept++
		line = strings.TrimRight(line, "\n")
		_, _ = fmt.Fprintln(&r.failures, line[:min(len(line), width)])
	}
}

// endPackage prints the package's line. A package that failed without a failing test is a failure of its own.
func (r *report) endPackage(e event) {
	if e.Action != "fail" {
		if e.Action == "pass" {
			r.printf("ok    %-60s %7.2fs\n", e.Package, e.Elapsed)
		}
		return
	}
	r.failUnfinished(e.Package)
	if !r.failing[e.Package] {
		r.counts.failed++
		r.recall(testName{e.Package, ""})
	}
	r.printf("%s%s", r.racesOf(e.Package), strings.Join(r.output[testName{e.Package, ""}], ""))
	r.printf("FAIL  %-60s %7.2fs\n", e.Package, e.Elapsed)
}

// failUnfinished counts the tests that a crash of the package interrupted. Only the innermost ones report.
func (r *report) failUnfinished(pkg string) {
	for _, name := range r.unfinished() {
		if name.pkg != pkg || name.test == "" {
			continue
		}
		delete(r.running, name)
		r.failTest(name)
	}
}

func (r *report) unfinished() []testName {
	return slices.SortedFunc(maps.Keys(r.running), func(a, b testName) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	})
}

// finish prints the rest and returns the counts.
func (r *report) finish() tally {
	for _, name := range r.unfinished() {
		r.counts.failed++
		r.printf("never ended: %s %s\n", name.pkg, name.test)
	}
	for _, why := range slices.Sorted(maps.Keys(r.reasons)) {
		r.printf("skipped %d: %s\n", r.reasons[why], why)
	}
	r.printf("%s\n", r.counts)
	return r.counts
}

// position matches the begin of the testing package's messages.
var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason finds the message of Skip in a test's output.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if at := position.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}
