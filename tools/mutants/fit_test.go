package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// A change of the product that a mutant does not fit any more shows here already, and not only when all are tried.
func TestEveryMutantFits(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range catalogue() {
		if err := m.check(); err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if _, err := m.contents(root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if !exists(t, m.test) {
			t.Errorf("%s: no test in %s matches %s", m.name, m.test.pkg, m.test.run)
		}
	}
}

var promiseRow = regexp.MustCompile(`(?m)^\| (P\d+) \|`)

// No promise without a mutant, and no mutant without a promise.
func TestEveryPromiseHasAMutant(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	mutants := map[string]int{}
	for _, row := range promiseRow.FindAllStringSubmatch(string(page), -1) {
		mutants[row[1]] = 0
	}
	if len(mutants) == 0 {
		t.Fatal("docs/guarantees.md has no promises")
	}
	for _, area := range areas {
		mutants[area] = 0
	}
	for _, m := range catalogue() {
		for _, p := range m.promises() {
			if _, known := mutants[p]; !known {
				t.Errorf("%s breaks %q, which is neither a promise of docs/guarantees.md nor an area", m.name, p)
			}
			mutants[p]++
		}
	}
	for promise, n := range mutants {
		if n == 0 {
			t.Errorf("no mutant breaks %s", promise)
		}
	}
}

// The list names of each mutant the promise, what is broken and the tests.
func TestTheListHasEveryMutant(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := printList(&out, catalogue()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")[1:]
	for i, m := range catalogue() {
		for _, want := range []string{m.name, m.promise, m.breaks, m.test.pkg + " Test"} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("the line of %s lacks %q: %s", m.name, want, lines[i])
			}
		}
	}
}

// exists tells whether the command would run a test.
func exists(t *testing.T, c command) bool {
	t.Helper()
	top, _, _ := strings.Cut(c.run, "/")
	pattern := regexp.MustCompile(top)
	files, err := filepath.Glob(filepath.Join(root, c.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testFunction.FindAllStringSubmatch(string(text), -1) {
			if pattern.MatchString(found[1]) {
				return true
			}
		}
	}
	return false
}
