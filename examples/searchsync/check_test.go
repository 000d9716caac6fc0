package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// Whatever the order in which events come, and however often, the newest state is what is found.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		s := newSyncer(t, in)
		a, b := document{ID: "x", Title: "red"}, document{ID: "x", Title: "blue"}
		s.save(t, a)
		s.save(t, b)
		s.save(t, a) // A, B, A: three versions
		s.sync(t, "x")
		wantFound(t, in, "red", "x")
		wantFound(t, in, "blue")
		if e, _, err := in.lookup(t.Context(), "x"); e.Version != 3 || err != nil {
			t.Errorf("version %d, %v", e.Version, err)
		}
		s.remove(t, "x")
		for range 4 { // the deletion's event, and older ones that come again
			s.sync(t, "x")
			wantFound(t, in, "red")
		}
		s.wantDifferences(t, nil, nil, nil)
		s.save(t, b)
		s.sync(t, "x")
		wantFound(t, in, "blue", "x")
		if e, _, err := in.lookup(t.Context(), "x"); e.Version != 5 || err != nil {
			t.Errorf("version %d after it came back, %v", e.Version, err)
		}
		if err := s.store.remove(t.Context(), "never"); !errors.Is(err, errNoDocument) {
			t.Errorf("deleting what is not there gives %v", err)
		}
	})
}

// Many that bring one document to the index at once, while it is being written, leave it as it is in the database.
func TestConcurrentSyncsLeaveTheNewest(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		s := newSyncer(t, in)
		s.save(t, document{ID: "x", Title: "v0"})
		done := make(chan error)
		const workers, times = 4, 8
		for range workers {
			go func() {
				var failed error
				for range times {
					failed = errors.Join(failed, pgx.BeginFunc(t.Context(), s.store.pool, func(tx pgx.Tx) error {
						return s.syncTx(t.Context(), tx, in, "x")
					}))
				}
				done <- failed
			}()
		}
		for i := range 10 {
			s.save(t, document{ID: "x", Title: fmt.Sprintf("v%d", i+1)})
		}
		for range workers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		s.sync(t, "x") // the event of the last version
		s.wantDifferences(t, nil, nil, nil)
	})
}

// holding lets the first put stand still when it has read the document.
type holding struct {
	index

	later         atomic.Bool
	held, release chan struct{}
}

func (h *holding) put(ctx context.Context, documents ...document) error {
	if !h.later.Swap(true) {
		close(h.held)
		<-h.release
	}
	return h.index.put(ctx, documents...)
}

// Who has read an older state and is slow to write it does not write it over a newer one.
func TestASlowWriterOverwritesNothing(t *testing.T) {
	t.Parallel()
	in := &holding{index: bleveTest(t), held: make(chan struct{}), release: make(chan struct{})}
	s := newSyncer(t, in)
	bring := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			done <- pgx.BeginFunc(t.Context(), s.store.pool, func(tx pgx.Tx) error { return s.syncTx(t.Context(), tx, in, "x") })
		}()
		return done
	}
	s.save(t, document{ID: "x", Title: "old"})
	slow := bring()
	<-in.held
	s.save(t, document{ID: "x", Title: "new"})
	quick := bring()
	clustertest.Until(t, "the second one waits, or has written", func(ctx context.Context) (blocked bool, err error) {
		if len(quick) > 0 {
			return true, nil
		}
		err = s.store.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&blocked)
		return blocked, err
	}, nil)
	close(in.release)
	for _, done := range []<-chan error{slow, quick} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wantFound(t, in, "new", "x")
	s.wantDifferences(t, nil, nil, nil)
}

func TestCheckFindsAndRepairMends(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		ctx := t.Context()
		s := newSyncer(t, in)
		s.save(t, numbered(5)...)
		for _, d := range numbered(5) {
			s.sync(t, d.ID)
		}
		s.wantDifferences(t, nil, nil, nil)
		d := numbered(5)
		gone, old, changed, deleted := d[0], d[1], d[2], d[3]
		old.Version, changed.Version, changed.Body = 0, 1, "somebody changed it behind our back"
		for _, err := range []error{
			in.remove(ctx, gone.ID), in.put(ctx, old, changed, document{ID: "unknown", Version: 3, Title: "never written"}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		s.remove(t, deleted.ID)
		s.wantDifferences(t, []string{gone.ID}, []string{old.ID, changed.ID}, []string{deleted.ID, "unknown"})
		r, err := s.repair(ctx, in, 0)
		if err != nil || r.differences() != 5 || r.Failed != 0 || r.Refused != 0 {
			t.Errorf("repair gives %+v, %v", r, err)
		}
		s.wantDifferences(t, nil, nil, nil)
		wantFound(t, in, "never")
		wantFound(t, in, "somebody")
	})
}

// What is on its way is no difference.
func TestCheckLetsChangesSettle(t *testing.T) {
	t.Parallel()
	s := newSyncer(t, bleveTest(t))
	s.save(t, document{ID: "x", Title: "late"})
	late := make(chan error)
	go func() {
		late <- pgx.BeginFunc(t.Context(), s.store.pool, func(tx pgx.Tx) error { return s.syncTx(t.Context(), tx, s.index, "x") })
	}()
	r, err := s.check(t.Context(), s.index, time.Minute)
	if err != nil || r.differences() != 0 {
		t.Errorf("check gives %+v, %v", r, err)
	}
	if err := <-late; err != nil {
		t.Error(err)
	}
}

// changing runs something when a rebuild is about to be swapped in.
type changing struct {
	index

	before func()
}

type changingRebuild struct {
	rebuilding

	before func()
}

func (c changing) rebuild(ctx context.Context) (rebuilding, error) {
	fresh, err := c.index.rebuild(ctx)
	return changingRebuild{fresh, c.before}, err
}

func (c changingRebuild) swap(ctx context.Context) error {
	c.before()
	return c.rebuilding.swap(ctx)
}

// What changed while the fresh index was filled is in it in the end; what it had too much is not.
func TestReindex(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		s := newSyncer(t, in)
		s.save(t, numbered(3*reindexPage/2)...)
		if err := in.put(t.Context(), document{ID: "rubbish", Title: "rubbish"}); err != nil {
			t.Fatal(err)
		}
		d := numbered(3)
		s.index = changing{in, func() {
			// Written to the old index alone, as the consumer does until the swap.
			s.remove(t, d[0].ID)
			s.save(t, document{ID: d[1].ID, Title: "changed meanwhile"}, document{ID: "new", Title: "new meanwhile"})
		}}
		var said []string
		err := s.reindex(t.Context(), func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if err != nil {
			t.Fatal(err)
		}
		t.Log(said)
		s.wantDifferences(t, nil, nil, nil)
		wantFound(t, in, "meanwhile", d[1].ID, "new")
		wantFound(t, in, "rubbish")
	})
}

// A rebuild that is cancelled leaves the index that was there.
func TestReindexCancelled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, in index) {
		t.Helper()
		s := newSyncer(t, in)
		s.save(t, numbered(2)...)
		if err := in.put(t.Context(), document{ID: "kept", Title: "kept"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.reindex(ctx, func(string, ...any) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Errorf("reindex gives %v", err)
		}
		wantFound(t, in, "kept", "kept")
		if err := s.reindex(t.Context(), func(string, ...any) {}); err != nil {
			t.Fatal(err)
		}
		s.wantDifferences(t, nil, nil, nil)
	})
}
