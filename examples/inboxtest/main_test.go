package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// consumerVariable makes the test's program one of the consumers that it tests.
const consumerVariable = "INBOXTEST_AS"

func TestMain(m *testing.M) {
	if as := os.Getenv(consumerVariable); as != "" {
		if err := run(context.Background(), []string{"-consumer", as}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "consumer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// consumerIs is the command of one of this program's consumers.
func consumerIs(t *testing.T, as string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"/usr/bin/env", consumerVariable + "=" + as, self}
}

func TestHelpShowsNoPassword(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://me:pl4nted@db/test")
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, nil, &out); err != nil || !strings.Contains(out.String(), "DATABASE_URL") || strings.Contains(out.String(), "pl4nted") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestConsumersInGoPass(t *testing.T) {
	t.Parallel()
	for _, as := range []string{"package", "functions"} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			failed, err := judge(t.Context(), pgtest.URL(t), slices.Sorted(maps.Keys(scenes)), consumerIs(t, as), t.Output())
			if err != nil || len(failed) > 0 {
				t.Errorf("it fails: %v, %v", failed, err)
			}
		})
	}
}

// Each broken consumer fails the scene that is there for its fault, and every scene is failed by one that passes another.
func TestBrokenConsumersAreFound(t *testing.T) {
	t.Parallel()
	found := map[string]string{
		"remembers-nothing": "repeat", "ids-alone": "late", "waits-for-gaps": "gap", "acks-first": "kill-before-commit",
		"in-memory": "kill-before-ack", "by-sequence": "resize", "by-version": "conflict", "own-commit": "failing",
		"drops-failures": "failing", "never-parks": "poison", "never-retries": "failing", "looks-without-lock": "two-at-once",
		"by-generation": "replay",
	}
	if len(found) != len(faults) {
		t.Errorf("%d faults are tried of %d", len(found), len(faults))
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			names := []string{found[fault], "repeat"}
			switch fault {
			case "remembers-nothing":
				names[1] = "gap"
			case "acks-first": // nobody knows when it has made its effect
				names = names[:1]
			}
			failed, err := judge(t.Context(), pgtest.URL(t), names, consumerIs(t, fault), t.Output())
			if err != nil || len(failed) != 1 || failed[names[0]] == nil {
				t.Errorf("of %v these fail: %v, %v", names, failed, err)
			}
		})
	}
	for name := range scenes {
		if !slices.Contains(slices.Collect(maps.Values(found)), name) {
			t.Errorf("no broken consumer fails %s", name)
		}
	}
}
