package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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

// totals is the sum of several runs: the counts in the first line of a file, and what failed in the others.
type totals struct {
	tally
	failures string
}

// readTotals reads the sum of earlier runs; a file that does not exist yet is a sum of zero.
func readTotals(path string) (totals, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return totals{}, nil
	}
	if err != nil {
		return totals{}, err
	}
	first, rest, _ := strings.Cut(string(content), "\n")
	t := totals{failures: rest}
	if _, err := fmt.Sscanf(first, "%d passed, %d failed, %d skipped", &t.passed, &t.failed, &t.skipped); err != nil {
		return totals{}, fmt.Errorf("read the totals in %s: %w", path, err)
	}
	return t, nil
}

// addTotals adds one run.
func addTotals(path string, more totals) error {
	t, err := readTotals(path)
	if err != nil {
		return err
	}
	t.passed += more.passed
	t.failed += more.failed
	t.skipped += more.skipped
	return os.WriteFile(path, []byte(t.String()+"\n"+t.failures+more.failures), 0o600)
}
