package house_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// longestDecision is how many lines a record of a decision may have.
const longestDecision = 25

// Each decision is named, as "ADR N", by the code that it explains, and no code names one that does not exist.
func TestDecisionsAreNamedByTheCodeTheyExplain(t *testing.T) {
	t.Parallel()
	records, err := filepath.Glob(filepath.Join(root, "docs", "adr", "0*.md"))
	if err != nil || len(records) == 0 {
		t.Fatalf("no records of decisions: %v", err)
	}
	named := decisionsNamed(t)
	for _, record := range records {
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > longestDecision {
			t.Errorf("%s has %d lines, %d at most", filepath.Base(record), lines, longestDecision)
		}
		number, err := strconv.Atoi(filepath.Base(record)[:4])
		if err != nil {
			t.Fatal(err)
		}
		if named[number] == "" {
			t.Errorf("no code names ADR %d", number)
		}
		delete(named, number)
	}
	for number, by := range named {
		t.Errorf("%s names ADR %d, which does not exist", by, number)
	}
}

var decision = regexp.MustCompile(`ADR (\d+)`)

// decisionsNamed are the numbers that code names, with a file that does.
func decisionsNamed(t *testing.T) map[int]string {
	t.Helper()
	named := map[int]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".sql":
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range decision.FindAllSubmatch(text, -1) {
			number, _ := strconv.Atoi(string(found[1]))
			named[number] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return named
}
