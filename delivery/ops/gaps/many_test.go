package gaps_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/gaps"
)

// What is listed is limited, what is counted is not; and of a repair nobody is
// asked for more than it would queue.
func TestMoreGapsThanAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 1000)
	b.drain(t)
	b.append(t, 1000)
	lost := b.exec(t, `DELETE FROM outbox`)
	r, err := b.store.Detect(t.Context(), gaps.Options{Limit: 3}, b.stream)
	if err != nil {
		t.Fatal(err)
	}
	if r.Counts[gaps.NeverEnqueued] != lost || r.Total() != lost {
		t.Errorf("counted %v, want %d that were never enqueued", r.Counts, lost)
	}
	want(t, texts(r.Gaps), "never-enqueued 1001", "never-enqueued 1002", "never-enqueued 1003")

	repair := gaps.Repair{Options: gaps.Options{Limit: 600}, Actor: "test", Reason: "because"}
	refused := errors.New("not these")
	repair.Confirm = func(found []gaps.Gap) error {
		if len(found) != 600 {
			t.Errorf("asked for %d, want 600", len(found))
		}
		return refused
	}
	if _, err := b.store.Repair(t.Context(), repair, b.stream); !errors.Is(err, refused) {
		t.Errorf("it ended with %v", err)
	}
	repair.Confirm = nil
	for _, n := range [][2]int64{{600, lost - 600}, {lost - 600, 0}, {0, 0}} {
		done, err := b.store.Repair(t.Context(), repair, b.stream)
		if err != nil || int64(len(done.Queued)) != n[0] || done.Left != n[1] {
			t.Errorf("queued %d, %d are left, want %d: %v", len(done.Queued), done.Left, n, err)
		}
	}
	b.drain(t)
	if got := b.detect(t, gaps.Options{}); got != nil {
		t.Errorf("found %q", got)
	}
}

// Pointers that a resize moved while they were looked for are no gaps: the look is
// given up.
func TestAResizeMeanwhileIsNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 100)
	b.drain(t)
	resized := false
	_, err := b.store.Detect(t.Context(), gaps.Options{Progress: func(string, int64, int64) {
		if !resized {
			resized = true
			b.exec(t, `UPDATE outbox_settings SET partition_count = 8`)
		}
	}}, b.stream)
	if err == nil || !strings.Contains(err.Error(), "resized") {
		t.Errorf("it ended with %v", err)
	}
}

// A look outlasts the limit that an administrator gives statements. Events that are locked for a second stand for many.
func TestALookOutlastsTheLimitOfStatements(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 20)
	b.drain(t)
	b.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = ''100ms''', current_database()); END $$`)
	locked, done := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 0; LOCK TABLE events`)
			locked <- err
			if err == nil {
				_, err = tx.Exec(t.Context(), `SELECT pg_catalog.pg_sleep(1)`)
			}
			return err
		})
	}()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	b.pool.Reset()
	b.detect(t, gaps.Options{})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
