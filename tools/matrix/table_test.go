package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

// What users are promised is what is tried, cell by cell.
func TestTheDocumentsHaveTheCells(t *testing.T) {
	t.Parallel()
	_, got, _, err := written(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if want := table(cell.storing); got != want {
		t.Errorf("%s says\n%swant, by make test/matrix,\n%s", page, got, want)
	}
}

// The table takes the place of the one before, and nothing else changes.
func TestATableIsPutIntoItsPage(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "page.md")
	for _, content := range []string{"Before.\n\n" + tableBegin + "old\n" + tableEnd + "\nAfter.\n", "no place"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := write(name, "new\n")
		if content == "no place" {
			if !errors.Is(err, errNoTable) {
				t.Errorf("without a place: %v", err)
			}
			continue
		}
		got, unread := os.ReadFile(name)
		if want := "Before.\n\n" + tableBegin + "new\n" + tableEnd + "\nAfter.\n"; string(got) != want || err != nil || unread != nil {
			t.Errorf("the page is %q, want %q, %v, %v", got, want, err, unread)
		}
	}
}
