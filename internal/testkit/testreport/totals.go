package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

var (
	errFailed  = errors.New("there are failures")
	errNothing = errors.New("no test was reported")
	errTooFew  = errors.New("too few tests passed")
)

// tally is how many tests ended in which way.
type tally struct {
	passed, failed, skipped int
}

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// readTotals reads the sum of earlier runs; a file that does not exist yet is a sum of zero.
func readTotals(path string) (tally, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tally{}, nil
	}
	if err != nil {
		return tally{}, err
	}
	var t tally
	if _, err := fmt.Sscanf(string(content), "%d passed, %d failed, %d skipped", &t.passed, &t.failed, &t.skipped); err != nil {
		return tally{}, fmt.Errorf("read the totals in %s: %w", path, err)
	}
	return t, nil
}

// addTotals adds the counts of one run.
func addTotals(path string, more tally) error {
	t, err := readTotals(path)
	if err != nil {
		return err
	}
	t.passed += more.passed
	t.failed += more.failed
	t.skipped += more.skipped
	return os.WriteFile(path, []byte(t.String()+"\n"), 0o600)
}
