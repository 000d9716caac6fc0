package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// command is a run of go test, with its packages.
type command struct{ call, packages []string }

func parse(arguments []string) (command, error) {
	cut := slices.Index(arguments, "--")
	if cut < 1 || cut == len(arguments)-1 {
		return command{}, errUsage
	}
	return command{call: arguments[:cut], packages: arguments[cut+1:]}, nil
}

// events runs the tests and passes their events to read.
func (c command) events(ctx context.Context, arguments []string, read func(io.Reader) error) error {
	cmd := exec.CommandContext(ctx, c.call[0], slices.Concat(c.call[1:], arguments)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed := read(out)
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, ctx.Err())
}

// mostAgain bounds the failing tests that may be bad luck.
const mostAgain = 5

// again runs each test that failed alone, and forgives those that pass each time.
func (r *report) again(ctx context.Context, c command, times int) error {
	suspects := r.suspects()
	if times < 1 || len(suspects) > mostAgain {
		return nil
	}
	for _, s := range suspects {
		passed, pattern := 0, r.pattern(s)
		for range times {
			alone := newReport(r.out)
			arguments := []string{"-count=1", "-run=" + pattern, s.pkg}
			if err := c.events(ctx, arguments, alone.read); err != nil {
				return err
			}
			unproven := func(name testName) bool { return s.covers(name) && !alone.passed[name] } // did not run, or was skipped
			if alone.counts.failed > 0 || len(alone.running) > 0 || slices.ContainsFunc(r.failed, unproven) {
				break
			}
			passed++
		}
		if passed == times {
			r.forgive(s, times)
		}
	}
	return nil
}

// covers reports whether a test is this one or one of its subtests.
func (s testName) covers(name testName) bool {
	return name.pkg == s.pkg && topLevel(name.test) == s.test
}

// suspects returns the failed tests, without subtests, of packages that ran to their end without other failures.
func (r *report) suspects() []testName {
	var all []testName
	for _, name := range r.failed {
		top := testName{name.pkg, topLevel(name.test)}
		if r.whole[name.pkg] && r.racesOf(name.pkg).String() == "" && !slices.Contains(all, top) {
			all = append(all, top)
		}
	}
	return all
}

// pattern matches a failed test, and of its subtests those that failed.
func (r *report) pattern(s testName) string {
	var subtests []string
	for _, name := range r.failed {
		if below, is := strings.CutPrefix(name.test, s.test+"/"); is && name.pkg == s.pkg {
			subtests = append(subtests, regexp.QuoteMeta(topLevel(below)))
		}
	}
	pattern := "^" + regexp.QuoteMeta(s.test) + "$"
	if len(subtests) > 0 {
		pattern += "/^(" + strings.Join(subtests, "|") + ")$"
	}
	return pattern
}

func topLevel(test string) string {
	top, _, _ := strings.Cut(test, "/")
	return top
}

// forgive counts a failed test and its subtests as passed, and names it.
func (r *report) forgive(s testName, times int) {
	kept := len(r.failed)
	r.failed = slices.DeleteFunc(r.failed, s.covers)
	r.counts.failed -= kept - len(r.failed)
	r.counts.passed += kept - len(r.failed)
	line := fmt.Sprintf("FLAKY %s %s: failed, and passed %d times alone\n", s.pkg, s.test, times)
	r.printf("%s", line)
	r.failures.WriteString(line)
}
