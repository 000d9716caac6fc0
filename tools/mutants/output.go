package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// output is the result of building and running tests.
type output struct {
	build      string // complaints of the go command, when there are any
	ok         bool   // exit status 0
	timedOut   bool
	passed     []string // tests, without subtests
	failed     []string
	skipped    []string
	complaints []string // lines of failing tests, without logs
	text       string
}

// allPassed reports whether some test ran and none was left out.
func (o output) allPassed() bool { return o.ok && len(o.passed) > 0 && len(o.skipped) == 0 }

// end returns the first complaints and the end of the text, which may be logs alone.
func (o output) end() string {
	lines := strings.Split(strings.TrimSpace(o.text), "\n")
	lines = append(slices.Clone(o.complaints[:min(len(o.complaints), 10)]), lines[max(0, len(lines)-25):]...)
	return "    " + strings.Join(lines, "\n    ") + "\n"
}

var (
	verdictLine = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)
	sourceLine  = regexp.MustCompile(`^\s+(\w+\.go):([0-9]+): (.*)$`)
	crashLine   = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|goleak: )`)
	logCall     = regexp.MustCompile(`\.Logf?\(`)
	timeoutLine = regexp.MustCompile(`^panic: test timed out after`)
)

// read parses the output of `go test -v` for the package in that folder.
func read(text, folder string, ok bool) output {
	o := output{text: text, ok: ok}
	source := sources{folder: folder, files: map[string][]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := verdictLine.FindStringSubmatch(line); m != nil {
			into := map[string]*[]string{"PASS": &o.passed, "FAIL": &o.failed, "SKIP": &o.skipped}[m[1]]
			*into = append(*into, m[2])
		}
		if m := sourceLine.FindStringSubmatch(line); m != nil && !source.logs(m[1], m[2]) {
			o.complaints = append(o.complaints, strings.TrimSpace(line))
		}
		o.timedOut = o.timedOut || timeoutLine.MatchString(line)
		if crashLine.MatchString(line) {
			o.complaints = append(o.complaints, line)
		}
	}
	return o
}

// sources are the files of a package, to tell logs from complaints: both are printed alike.
type sources struct {
	folder string
	files  map[string][]string
}

// logs reports whether that line of that file only logs.
func (s sources) logs(file, number string) bool {
	lines, known := s.files[file]
	if !known {
		if text, err := os.ReadFile(filepath.Join(s.folder, file)); err == nil { // else the file is another package's
			lines = strings.Split(string(text), "\n")
		}
		s.files[file] = lines
	}
	n, err := strconv.Atoi(number)
	return err == nil && n >= 1 && n <= len(lines) && logCall.MatchString(lines[n-1])
}

// complaint returns the first complaint that matches.
func (o output) complaint(pattern string) (string, bool) {
	matches := regexp.MustCompile(pattern)
	i := slices.IndexFunc(o.complaints, matches.MatchString)
	if i < 0 {
		return "", false
	}
	return o.complaints[i], true
}
