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
