package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/lease"
)

// A worker that is asked to drain finishes what is in flight, hands everything
// over, and takes nothing back, also when it is the last one.
func TestADrainRequestIsAnswered(t *testing.T) {
	t.Parallel()
	c := setup(t, 4, coordinator.Config{})
	inside, finish := make(chan *lease.Lease, 1), make(chan struct{})
	a := c.join(t, busyWith(2, inside, finish))
	work := <-inside
	c.ask(t, a.id)
	select {
	case <-drainBegun(t, work):
	case <-time.After(patience):
		t.Fatal("no drain began")
	}
	c.shares(t, map[uuid.UUID]int{a.id: 1}) // the one with work inside
	if work.Context().Err() != nil {
		t.Error("the lease ended while work was inside")
	}
	close(finish)
	c.shares(t, map[uuid.UUID]int{})
	if s := a.State(); !s.Draining || len(s.Desired) != 0 {
		t.Errorf("its state is %+v", s)
	}

	b := c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{b.id: 4})
	// Its row was purged: the worker remembers, and says so in the new one.
	if _, err := c.pool.Exec(t.Context(), `DELETE FROM outbox_workers WHERE worker_id = $1`, a.id); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for back := 0; back == 0; {
		if err := c.pool.QueryRow(ctx, `SELECT count(*) FROM outbox_workers WHERE worker_id = $1 AND drain_requested_at IS NOT NULL`, a.id).Scan(&back); err != nil {
			t.Fatalf("its new row does not say that it was asked to drain: %v", err)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	d := c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{d.id: 4})
	if n, err := c.workers(t); err != nil || n != 2 {
		t.Errorf("%d rows of workers, want the drained and the new one: %v", n, err)
	}
	if err := a.stop(); err != nil {
		t.Errorf("the drained worker's stop: %v", err)
	}
}

// A drain that is taken back has the worker take part again.
func TestADrainIsTakenBack(t *testing.T) {
	t.Parallel()
	c := setup(t, 4, coordinator.Config{})
	a, b := c.join(t, nil), c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{a.id: 2, b.id: 2})
	c.ask(t, a.id)
	c.shares(t, map[uuid.UUID]int{b.id: 4})
	if _, err := c.pool.Exec(t.Context(), `UPDATE outbox_workers SET drain_requested_at = NULL WHERE worker_id = $1`, a.id); err != nil {
		t.Fatal(err)
	}
	c.tower.hang().Ring()
	c.shares(t, map[uuid.UUID]int{a.id: 2, b.id: 2})
	if s := a.State(); s.Draining || len(s.Desired) != 2 {
		t.Errorf("its state is %+v", s)
	}
}

// ask asks a worker to drain and rings.
func (c *cluster) ask(t *testing.T, id uuid.UUID) {
	t.Helper()
	tag, err := c.pool.Exec(t.Context(), `UPDATE outbox_workers SET drain_requested_at = clock_timestamp() WHERE worker_id = $1`, id)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("asked %d workers: %v", tag.RowsAffected(), err)
	}
	c.tower.hang().Ring()
}
