package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/examples/searchsync/meilitest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// newStoreTest gives a store on a database of its own.
func newStoreTest(t *testing.T) *store {
	t.Helper()
	st, err := newStore(t.Context(), pgtest.Pool(t, pgtest.Migrated(t, 4)))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// bleveTest gives an empty Bleve index.
func bleveTest(t *testing.T) index {
	t.Helper()
	in, err := openBleve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// meiliTest gives an empty index of a server of its own.
func meiliTest(t *testing.T) (index, *meilitest.Server) {
	t.Helper()
	fixture := meilitest.Start(t)
	server, err := newMeiliServer(fixture.URL, fixture.Key)
	if err != nil {
		t.Fatal(err)
	}
	in, err := openMeili(t.Context(), server, "documents")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.close() })
	return in, fixture
}

// both runs a test on each kind of index.
func both(t *testing.T, test func(t *testing.T, in index)) {
	t.Helper()
	t.Run("bleve", func(t *testing.T) {
		t.Parallel()
		test(t, bleveTest(t))
	})
	t.Run("meilisearch", func(t *testing.T) {
		t.Parallel()
		in, _ := meiliTest(t)
		test(t, in)
	})
}

func newSyncer(t *testing.T, in index) *syncer {
	t.Helper()
	return &syncer{store: newStoreTest(t), index: in, log: slog.New(slog.DiscardHandler)}
}

// sync brings a document to the index, as an event of it does.
func (s *syncer) sync(t *testing.T, id string) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), s.store.pool, func(tx pgx.Tx) error { return s.syncTx(t.Context(), tx, s.index, id) }); err != nil {
		t.Fatal(err)
	}
}

func (s *syncer) save(t *testing.T, documents ...document) {
	t.Helper()
	if err := s.store.save(t.Context(), documents...); err != nil {
		t.Fatal(err)
	}
}

func (s *syncer) remove(t *testing.T, id string) {
	t.Helper()
	if err := s.store.remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// wantDifferences checks the index at once.
func (s *syncer) wantDifferences(t *testing.T, missing, stale, extra []string) {
	t.Helper()
	r, err := s.check(t.Context(), s.index, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Missing, missing) || !slices.Equal(r.Stale, stale) || !slices.Equal(r.Extra, extra) {
		t.Errorf("missing %v, stale %v, extra %v; want %v, %v, %v", r.Missing, r.Stale, r.Extra, missing, stale, extra)
	}
}

// wantFound checks what a search finds, in any order.
func wantFound(t *testing.T, in index, query string, want ...string) {
	t.Helper()
	found, err := in.search(t.Context(), query, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range found {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("searching %q finds %v, want %v", query, ids, want)
	}
}

func numbered(n int) []document {
	documents := make([]document, n)
	for i := range documents {
		documents[i] = document{ID: fmt.Sprintf("d/%04d ü", i), Title: fmt.Sprintf("Letter number%d", i), Body: "carried by the postrider"}
	}
	return documents
}

// count is how many entries an index has.
func count(ctx context.Context, in index) (n int, err error) {
	err = in.each(ctx, func(entries []entry) error {
		n += len(entries)
		return nil
	})
	return n, err
}
