package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/examples/searchsync/meilitest"
	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// refusingIndex takes no document, ever.
type refusingIndex struct{ index }

func (refusingIndex) put(context.Context, ...document) error { return errRefused }

// flakyIndex fails half of all writes, a half of those after they were made.
type flakyIndex struct {
	index

	mu     sync.Mutex
	random *rand.Rand
	failed int
}

var errFlaky = errors.New("the index fails")

func (f *flakyIndex) write(work func() error) error {
	f.mu.Lock()
	fate := f.random.IntN(4)
	if fate < 2 {
		f.failed++
	}
	f.mu.Unlock()
	if fate == 0 {
		return errFlaky
	}
	err := work()
	if fate == 1 {
		return errFlaky
	}
	return err
}

func (f *flakyIndex) put(ctx context.Context, documents ...document) error {
	return f.write(func() error { return f.index.put(ctx, documents...) })
}

func (f *flakyIndex) remove(ctx context.Context, ids ...string) error {
	return f.write(func() error { return f.index.remove(ctx, ids...) })
}

// mostBackoff bounds the waits of what fails half of the time: of some hundred documents one fails a dozen times in a row, and
// doubled waits would exceed the time that a test waits for any progress.
const mostBackoff = 500 * time.Millisecond

// consuming keeps the index in step in this process until the test ends.
func (s *syncer) consuming(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	if err := inbox.Migrate(t.Context(), s.store.pool, inbox.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(s.store.pool, inboxConfig(s.index, s.log, 20*time.Millisecond, mostBackoff))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	nc := c.NATS.Connect(t)
	go func() { ended <- s.consume(ctx, nc, box) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// 500 documents are imported while the index fails half of the time, and are changed and deleted meanwhile: in the end the
// check finds no difference.
//
// Bleve waits for the disk at every write, so that the test is short unless POSTRIDER_SLOW=1.
func TestImportWhileBleveFails(t *testing.T) {
	t.Parallel()
	documents := 500
	if os.Getenv(slow.Variable) != "1" {
		documents = 100
	}
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	c.Start(t, 1)
	st, err := newStore(t.Context(), c.Pool)
	if err != nil {
		t.Fatal(err)
	}
	flaky := &flakyIndex{index: bleveTest(t), random: rand.New(rand.NewPCG(1, 2))}
	s := &syncer{store: st, index: flaky, log: slog.New(slog.DiscardHandler)}
	s.consuming(t, c)
	importAndChange(t, s, documents)
	s.wantInStep(t)
	if flaky.failed < documents/5 {
		t.Errorf("only %d writes failed", flaky.failed)
	}
	t.Logf("%d writes failed", flaky.failed)
}

// The same with a server that does everything that a server can do.
func TestImportWhileMeilisearchFails(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	c.Start(t, 1)
	st, err := newStore(t.Context(), c.Pool)
	if err != nil {
		t.Fatal(err)
	}
	in, fixture := meiliTest(t)
	failed := stormy(fixture)
	s := &syncer{store: st, index: in, log: slog.New(slog.DiscardHandler)}
	s.consuming(t, c)
	importAndChange(t, s, 500)
	s.wantWorked(t)
	fixture.SetFault(nil)
	s.wantInStep(t)
	t.Logf("%d of %d requests failed", failed(), fixture.Requests())
}

// stormy has half of all changes fail, in every way.
func stormy(fixture *meilitest.Server) (failed func() int) {
	random, n := rand.New(rand.NewPCG(3, 4)), 0
	faults := []meilitest.Fault{
		{Status: 500}, {Status: 503}, {Status: 429}, {Break: true}, {BreakAfter: true}, {FailTask: true}, {FailTask: true},
	}
	var mu sync.Mutex
	fixture.SetFault(func(r *http.Request) meilitest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPost || random.IntN(2) == 0 {
			return meilitest.Fault{}
		}
		n++
		return faults[random.IntN(len(faults))]
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func importAndChange(t *testing.T, s *syncer, n int) {
	t.Helper()
	documents := numbered(n)
	s.save(t, documents...)
	for i, d := range documents {
		switch i % 10 {
		case 3:
			d.Title += " changed"
			s.save(t, d)
		case 7:
			s.remove(t, d.ID)
		}
	}
}

// wantWorked waits until every event is dealt with, by success.
func (s *syncer) wantWorked(t *testing.T) {
	t.Helper()
	clustertest.Until(t, "every event is applied", func(ctx context.Context) (done bool, err error) {
		err = s.store.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM outbox)
			AND (SELECT count(*) FROM events) = (SELECT coalesce(sum(version), 0) FROM inbox_streams)
			AND NOT EXISTS (SELECT FROM inbox_parked)`).Scan(&done)
		return done, err
	}, func() string {
		var text string
		err := s.store.pool.QueryRow(context.Background(), `SELECT format('outbox %s, events %s, applied %s, parked %s; consumers %s; %s',
			(SELECT count(*) FROM outbox), (SELECT count(*) FROM events), (SELECT sum(version) FROM inbox_streams), (SELECT count(*) FROM inbox_parked),
			(SELECT string_agg(consumer, ' ') FROM inbox_consumers),
			(SELECT string_agg(x, E'\n') FROM (SELECT concat_ws(' ', state, attempts, due_at, reason) x FROM inbox_parked LIMIT 20) p))`).Scan(&text)
		return fmt.Sprint(text, err)
	})
}

// wantInStep waits until every event is dealt with, and then expects no difference.
func (s *syncer) wantInStep(t *testing.T) {
	t.Helper()
	s.wantWorked(t)
	s.wantDifferences(t, nil, nil, nil)
	r, err := s.check(t.Context(), s.index, 0)
	if err != nil || r.Documents == 0 || r.Documents != r.Entries {
		t.Errorf("%d documents, %d entries, %v", r.Documents, r.Entries, err)
	}
}
