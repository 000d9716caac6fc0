package pairs_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/partition"
)

// crew are producers beside the usual ones, which an operation brings along. They are stopped whenever it must be quiet.
type crew struct {
	size int
	// work is the i-th transaction of producer n; it goes on when running has ended.
	work func(running context.Context, s *stage, n, i int) error
	// begin and end are of those that other processes are; nil: none.
	begin, end func(t *testing.T)

	count atomic.Int64
	stop  func(t *testing.T)
}

// employ has a crew work, and waits until it has done so many transactions.
func (s *stage) employ(t *testing.T, c *crew, transactions int64) {
	t.Helper()
	c.start(t, s)
	s.crews = append(s.crews, c)
	clustertest.Until(t, "the crew is at work", func(context.Context) (bool, error) { return c.count.Load() >= transactions, nil }, nil)
}

// dismiss ends its work.
func (s *stage) dismiss(t *testing.T, c *crew) {
	t.Helper()
	c.stop(t)
	for i, other := range s.crews {
		if other == c {
			s.crews = append(s.crews[:i], s.crews[i+1:]...)
			break
		}
	}
}

func (c *crew) start(t *testing.T, s *stage) {
	t.Helper()
	step(t, c.begin)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for n := range c.size {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := c.work(ctx, s, n, i); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
				c.count.Add(1)
			}
		})
	}
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	c.stop = func(t *testing.T) {
		t.Helper()
		stop()
		mu.Lock()
		defer mu.Unlock()
		if failure != nil {
			t.Errorf("producers of an operation: %v", failure)
		}
		step(t, c.end)
	}
}

// conclude commits a transaction or rolls it back, and tells the ledger.
func (s *stage) conclude(ctx context.Context, tx pgx.Tx, entries []ledger.Entry, commit bool) error {
	s.Ledger.Begin(entries)
	if !commit {
		s.Ledger.Failed(entries)
		return tx.Rollback(ctx)
	}
	err := tx.Commit(ctx)
	if err == nil {
		s.Ledger.Committed(entries, time.Now())
	}
	return err
}

// appended reads what triggers appended, by the events' ids or as the last event of a stream.
func (s *stage) appended(ctx context.Context, tx pgx.Tx, where string, args ...any) ([]ledger.Entry, error) {
	rows, err := tx.Query(ctx, `SELECT e.event_id, e.stream_id, e.stream_version, e.sequence, o.partition_key
		FROM events AS e JOIN outbox AS o ON o.global_sequence = e.sequence WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, entryOf)
}

// entryOf reads an event's id, stream, version, sequence and partition.
func entryOf(row pgx.CollectableRow) (e ledger.Entry, err error) {
	var in int
	err = row.Scan(&e.EventID, &e.Stream, &e.Version, &e.Sequence, &in)
	e.Partition = partition.ID(in) // of 16 bits
	return e, err
}

// hire starts workers.
func (s *stage) hire(t *testing.T, n int) {
	t.Helper()
	flags := s.flags
	if s.canaries > 0 {
		flags = append(slices.Clone(flags), "--canary=1s")
	}
	hired := s.Start(t, n, flags...)
	s.workers, s.hired = append(s.workers, hired...), append(s.hired, hired...)
}

// replace starts as many workers as the n oldest, which end then.
func (s *stage) replace(t *testing.T, n int) {
	t.Helper()
	old := s.workers[:n:n]
	s.workers = s.workers[n:]
	s.hire(t, n)
	for _, w := range old {
		w.Signal(t, syscall.SIGTERM)
		if code := w.Exit(t); code != 0 {
			t.Errorf("a worker that was replaced ended with status %d: %s", code, w.Stderr())
		}
	}
}

// named is a name that no other pair uses.
func named(kind string) string { return kind + "_" + uuid.NewString()[:8] }
