package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIndexHoldsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		ctx := t.Context()
		a := document{ID: "a b/ü", Version: 1, Title: "Apples", Body: "red fruit"}
		b := document{ID: "b", Version: 7, Title: "Bananas", Body: "yellow fruit"}
		if err := in.put(ctx, a, b); err != nil {
			t.Fatal(err)
		}
		wantFound(t, in, "fruit", a.ID, b.ID)
		wantFound(t, in, "apples", a.ID)
		wantFound(t, in, a.entry().Hash) // what is not text is not searched
		if e, ok, err := in.lookup(ctx, a.ID); e != a.entry() || !ok || err != nil {
			t.Errorf("lookup gives %v, %t, %v; want %v", e, ok, err, a.entry())
		}
		b.Version, b.Body = 8, "long vegetable"
		if err := in.put(ctx, b); err != nil {
			t.Fatal(err)
		}
		wantFound(t, in, "fruit", a.ID)
		if err := in.remove(ctx, a.ID, "never there"); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := in.lookup(ctx, a.ID); ok || err != nil {
			t.Errorf("lookup of what was removed gives %t, %v", ok, err)
		}
		if n, err := count(ctx, in); n != 1 || err != nil {
			t.Errorf("%d entries, %v", n, err)
		}
	})
}

// All pages are visited.
func TestIndexVisitsEveryEntry(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		if err := in.put(t.Context(), numbered(2*meiliPage+1)...); err != nil {
			t.Fatal(err)
		}
		if n, err := count(t.Context(), in); n != 2*meiliPage+1 || err != nil {
			t.Errorf("%d entries, %v", n, err)
		}
	})
}

func TestRebuildIsSwappedOrDiscarded(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		ctx := t.Context()
		if err := in.put(ctx, document{ID: "old", Title: "fruit"}); err != nil {
			t.Fatal(err)
		}
		for _, end := range []func(rebuilding, context.Context) error{rebuilding.discard, rebuilding.swap} {
			fresh, err := in.rebuild(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := fresh.put(ctx, document{ID: "new", Title: "fruit"}); err != nil {
				t.Fatal(err)
			}
			wantFound(t, in, "fruit", "old")
			if err := end(fresh, ctx); err != nil {
				t.Fatal(err)
			}
		}
		wantFound(t, in, "fruit", "new")
	})
}

// What a killed rebuild left is swept, and the index that was there is used.
func TestBleveSurvivesAnInterruptedRebuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, err := openBleve(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.put(t.Context(), document{ID: "old", Title: "fruit"}); err != nil {
		t.Fatal(err)
	}
	fresh, err := in.rebuild(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fresh.close(), in.close()); err != nil { // as the process ends
		t.Fatal(err)
	}
	if in, err = openBleve(dir); err != nil {
		t.Fatal(err)
	}
	wantFound(t, in, "fruit", "old")
	if folders, err := filepath.Glob(filepath.Join(dir, "index-*")); len(folders) != 1 || err != nil {
		t.Errorf("folders %v, %v", folders, err)
	}
	// A second process is told why it cannot.
	if _, err := openBleve(dir); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opening it twice gives %v", err)
	}
	if err := in.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, currentFile), []byte("index-gone\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openBleve(dir); err == nil {
		t.Error("an index that is gone was opened")
	}
}
