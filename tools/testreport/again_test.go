package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unlucky is a package with a test that fails once, and whose subtest may be skipped then, one that fails always or ends the process once
// when asked to, and one in whose package a race was seen.
const unlucky = `package unlucky

import (
	"fmt"
	"os"
	"testing"
)

func TestOnce(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if _, err := os.Stat("seen"); err != nil {
			_ = os.WriteFile("seen", nil, 0o600)
			t.Error("bad luck")
		} else if os.Getenv("UNLUCKY") == "skip" {
			t.Skip("not alone")
		}
	})
	t.Run("long", func(t *testing.T) {
		if _, err := os.Stat("long"); err == nil {
			t.Error("run again")
		}
		_ = os.WriteFile("long", nil, 0o600)
	})
}

func TestAlways(t *testing.T) {
	if os.Getenv("UNLUCKY") == "always" {
		t.Error("broken")
	}
	if _, err := os.Stat("exited"); err != nil && os.Getenv("UNLUCKY") == "exit" {
		_ = os.WriteFile("exited", nil, 0o600)
		os.Exit(3)
	}
}

func TestRaces(t *testing.T) {
	if os.Getenv("UNLUCKY") == "race" {
		fmt.Println("==================\nWARNING: DATA RACE\n==================")
	}
}
`

func TestWhatFailedIsRunAgain(t *testing.T) {
	for name, test := range map[string]struct {
		how   string
		want  []string
		flaky bool
		err   error
	}{
		"passes alone": {"", []string{"bad luck", "FLAKY unlucky TestOnce: failed, and passed 3 times alone", "5 passed, 0 failed, 0 skipped"}, true, nil},
		"fails again":  {"always", []string{"FLAKY unlucky TestOnce", "4 passed, 1 failed, 0 skipped"}, true, errFailed},
		"is skipped":   {"skip", []string{"bad luck", "3 passed, 2 failed, 0 skipped"}, false, errFailed},
		"breaks off":   {"exit", []string{"bad luck", "1 passed, 3 failed, 0 skipped"}, false, errFailed},
		"races":        {"race", []string{"bad luck", "3 passed, 2 failed, 0 skipped"}, false, errFailed},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module unlucky\n", "unlucky_test.go": unlucky} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("UNLUCKY", test.how)
			t.Setenv("GOFLAGS", "")
			var out strings.Builder
			err := run(t.Context(), &out, []string{"go", "-C", folder, "test", "-json", "-count=1", "--", "."}, options{again: 3})
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "FLAKY") != test.flaky {
				t.Errorf("flaky should be %v in\n%s", test.flaky, out.String())
			}
		})
	}
}
