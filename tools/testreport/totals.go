package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

var (
	errFailed  = errors.New("there are failures")
	errNothing = errors.New("no test was reported")
	errTooFew  = errors.New("too few tests passed")
)

// tally counts tests by outcome.
type tally struct {
	passed, failed, skipped int
}

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// totals is the sum of several runs: their counts and failures.
type totals struct {
	tally

	failures string
}

// entry is one run in the file: a line of JSON.
type entry struct {
	Passed, Failed, Skipped int
	Failures                string
}

// readTotals reads the sum of earlier runs; a file that does not exist yet is a sum of zero.
func readTotals(path string) (t totals, err error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return totals{}, err
	}
	for d := json.NewDecoder(bytes.NewReader(content)); ; {
		var e entry
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return totals{}, fmt.Errorf("read the totals in %s: %w", path, err)
		}
		t.passed += e.Passed
		t.failed += e.Failed
		t.skipped += e.Skipped
		t.failures += e.Failures
	}
}

// addTotals adds one run, in one write: others may end at the same time.
func addTotals(path string, run totals) error {
	line, err := json.Marshal(entry{Passed: run.passed, Failed: run.failed, Skipped: run.skipped, Failures: run.failures})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
