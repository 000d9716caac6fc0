package heartbeat_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type bundle struct {
	pool  *pgxpool.Pool
	store *heartbeat.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	store, err := heartbeat.NewStore(pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	return bundle{pool, store}
}

func (b bundle) beater(t *testing.T, cfg heartbeat.Config) *heartbeat.Beater {
	t.Helper()
	beater, err := heartbeat.NewBeater(b.store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return beater
}

func (b bundle) snapshot(t *testing.T) heartbeat.Snapshot {
	t.Helper()
	s, err := b.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until asks the database until ok or a minute.
func (b bundle) until(t *testing.T, what string, ok func(heartbeat.Snapshot) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; !ok(b.snapshot(t)); <-pace.C {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestAWorkerJoinsDrainsAndLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.beater(t, heartbeat.Config{Version: "v1", Hostname: "here", PID: 7, Shape: "plain"})
	if err := w.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := b.snapshot(t)
	row, ok := s.Find(w.ID())
	if !ok || !row.Live() || row.Version != "v1" || row.Hostname != "here" || row.PID != 7 || row.Shape != "plain" || row.State != heartbeat.Active {
		t.Fatalf("the row says %+v", row)
	}
	if members := s.Members(); len(members) != 1 || members[0] != w.ID() {
		t.Errorf("members %v, want the worker", members)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if members := b.snapshot(t).Members(); len(members) != 0 {
		t.Errorf("a draining worker is a member: %v", members)
	}
	if err := w.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Register(t.Context()); err != nil { // a late beat
		t.Fatal(err)
	}
	if s := b.snapshot(t); len(s.Workers) != 0 {
		t.Errorf("a beat after leaving brought the row back: %+v", s.Workers)
	}
}

func TestABeatBringsAPurgedRowBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.beater(t, heartbeat.Config{TTL: 600 * time.Millisecond})
	if err := w.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM outbox_workers`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	b.until(t, "the row to come back", func(s heartbeat.Snapshot) bool { return len(s.Members()) == 1 })
	cancel()
	running.Wait()
}

func TestAStaleWorkerIsNoMemberAndIsPurgedLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.beater(t, heartbeat.Config{})
	if err := w.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox_workers SET heartbeat_until = clock_timestamp() - interval '1 min'`); err != nil {
		t.Fatal(err)
	}
	s := b.snapshot(t)
	if len(s.Members()) != 0 || len(s.Workers) != 1 || s.Workers[0].Live() {
		t.Errorf("a stale worker counts: %+v", s)
	}
	if n, err := b.store.Purge(t.Context(), time.Hour); err != nil || n != 0 {
		t.Errorf("purged %d too early, %v", n, err)
	}
	if n, err := b.store.Purge(t.Context(), time.Second); err != nil || n != 1 {
		t.Errorf("purged %d, want 1, %v", n, err)
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]heartbeat.Config{
		"TTL":        {TTL: time.Millisecond},
		"Interval":   {TTL: time.Second, Interval: time.Second},
		"PurgeAfter": {PurgeAfter: -1},
	} {
		if _, err := heartbeat.NewBeater(nil, cfg); !errors.Is(err, heartbeat.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := heartbeat.NewStore(nil, `pub"lic`); err == nil {
		t.Error("a schema with a quote in it was taken")
	}
}
