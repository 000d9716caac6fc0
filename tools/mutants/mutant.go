package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is a broken variant of the product.
type mutant struct {
	name    string
	promise string // those of docs/guarantees.md, such as "P1, P4", or one of areas
	breaks  string // in words
	edits   []edit
	test    command
	// says matches a failing test's complaint: the evidence that it noticed this mutant.
	says string
	// hangs says that the tests run into the limit.
	hangs bool
	limit time.Duration // of the tests; 0: defaultLimit
}

// defaultLimit is enough for any of the tests on a busy machine.
const defaultLimit = 3 * time.Minute

// edit replaces a text that occurs exactly once. The file's name is relative to the module.
type edit struct{ file, before, after string }

// command runs tests of one package.
type command struct {
	pkg string // folder, relative to the module
	run string // -test.run
	env string // one assignment, or nothing
}

// ordinary reports whether make test runs it.
func (c command) ordinary() bool {
	return c.env == "" && c.pkg != "internal/faults" && c.pkg != "internal/deployment"
}

func (m mutant) timeLimit() time.Duration { return cmp.Or(m.limit, defaultLimit) }

// check refuses an incomplete or malformed mutant.
func (m mutant) check() error {
	switch {
	case m.name == "" || m.promise == "" || m.breaks == "" || len(m.edits) == 0 || m.test.pkg == "" || m.test.run == "":
		return errors.New("a name, the promise, what it breaks, an edit and tests are required")
	case m.says == "" && !m.hangs:
		return errors.New("what the tests must say is required")
	}
	if _, err := regexp.Compile(m.says); err != nil {
		return err
	}
	_, err := regexp.Compile(m.test.run)
	return err
}

// errMisfit is returned for a mutant that cannot be made of this tree.
var errMisfit = errors.New("the mutant does not fit the tree any more")

// contents returns the changed files by their names.
func (m mutant) contents(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.edits {
		text, seen := changed[e.file]
		if !seen {
			bytes, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errMisfit, err)
			}
			text = string(bytes)
		}
		if n := strings.Count(text, e.before); n != 1 || e.before == e.after {
			return nil, fmt.Errorf("%w: in %s this occurs %d times, not once:\n%s", errMisfit, e.file, n, e.before)
		}
		changed[e.file] = strings.Replace(text, e.before, e.after, 1)
	}
	return changed, nil
}

// overlay writes the changed files and the go command's list of them, and returns the list's path.
func (m mutant) overlay(root, folder string) (string, error) {
	changed, err := m.contents(root)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		place := filepath.Join(folder, fmt.Sprintf("%d%s", len(list.Replace), filepath.Ext(file)))
		if err := os.WriteFile(place, []byte(text), 0o600); err != nil {
			return "", err
		}
		list.Replace[filepath.Join(root, file)] = place
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
