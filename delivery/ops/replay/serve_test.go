package replay_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
)

// serves has another process serve until the test, or who calls stop, ends it.
func (b *bundle) serves(t *testing.T) (store *replay.Store, stop func()) {
	t.Helper()
	store, err := replay.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { store.Serve(ctx, slog.New(slog.DiscardHandler)) })
	stop = func() {
		cancel()
		served.Wait()
	}
	t.Cleanup(stop)
	return store, stop
}

// until waits for a replay that is as it should be.
func (b *bundle) until(t *testing.T, id int64, is func(replay.Job) bool) (j replay.Job) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		if j, err = b.store.Get(ctx, id); err != nil {
			t.Fatalf("it is %+v: %v", j, err)
		}
		if is(j) {
			return j
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it is %+v", j)
		}
	}
}

func in(state replay.State) func(replay.Job) bool {
	return func(j replay.Job) bool { return j.State == state }
}

// asked is a replay of everything that others run.
func asked(rate float64) replay.Spec {
	spec := all()
	spec.Rate, spec.Actor, spec.Reason = rate, "test", "because"
	return spec
}

// Whoever serves begins a replay at once, lays it aside when it stops, and another one goes on; so it does when one was killed, and not
// before. Each event is queued once.
func TestAServedReplayIsGoneOnWith(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	first, stop := b.serves(t)
	j, err := first.Create(t.Context(), asked(100), nil, nil)
	if err != nil || j.State != replay.Planned || j.Selected != nil {
		t.Fatalf("%+v, %v", j, err)
	}
	b.until(t, j.ID, func(j replay.Job) bool { return j.Replayed >= 20 })
	stop()
	if j = b.until(t, j.ID, in(replay.Paused)); !j.Waits() {
		t.Errorf("after a stop it is %+v", j)
	}
	// Somebody who runs it lives.
	b.exec(t, `UPDATE outbox_replays SET state = 'running', runner = gen_random_uuid(), updated_at = clock_timestamp() + interval '10 s'`)
	b.serves(t)
	second, _ := b.serves(t)
	other, err := second.Create(t.Context(), asked(1e6), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := b.store.Get(t.Context(), j.ID); err != nil || at.Replayed != j.Replayed {
		t.Errorf("a replay that is run went from %d to %d: %v", j.Replayed, at.Replayed, err)
	}
	b.exec(t, `UPDATE outbox_replays SET updated_at = clock_timestamp() - interval '31 s' WHERE id = $1`, j.ID) // it was killed
	j = b.until(t, j.ID, in(replay.Done))
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE generation = 100`); j.Replayed != 95 || n != 95 || j.Differs() != "" {
		t.Errorf("%d events of 95 are queued; it is %+v", n, j)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox_audit WHERE action = 'replay.run' AND (target ->> 'replay')::bigint = $1`, j.ID); n != 2 {
		t.Errorf("it was run %d times, want 2", n)
	}
	b.publish(t, "generation = 100")
	b.until(t, other.ID, in(replay.Done))
}

// What a command made or took is the command's, and what selects another number than was promised is for nobody.
func TestOnlyWhatWasAskedForIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	command := b.create(t, all())
	b.exec(t, `UPDATE outbox_replays SET state = 'paused' WHERE id = $1`, command.ID)
	taken := b.create(t, asked(100))
	taken = b.interrupt(t, taken.ID, 10, replay.RunConfig{BatchSize: 10})
	if taken.State != replay.Paused || taken.Rate != 0 {
		t.Errorf("what a command took is %+v", taken)
	}
	store, _ := b.serves(t)
	wrong := int64(7)
	refused, err := store.Create(t.Context(), asked(100), &wrong, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused = b.until(t, refused.ID, replay.Job.Ended)
	if refused.State != replay.Cancelled || refused.Replayed != 0 {
		t.Errorf("one that was to be for 7 events is %+v", refused)
	}
	for _, id := range []int64{command.ID, taken.ID} {
		if j, err := b.store.Get(t.Context(), id); err != nil || j.State != replay.Paused {
			t.Errorf("it is %+v, %v", j, err)
		}
	}
	for field, spec := range map[string]replay.Spec{
		"begun":  {Rate: 1, Begin: true, Selection: replay.Selection{All: true}, Actor: "test"},
		"shadow": {Rate: 1, Destination: replay.Shadow, Stream: "S", Selection: replay.Selection{All: true}, Actor: "test"},
		"slow":   {Rate: 0.01, Selection: replay.Selection{All: true}, Actor: "test"},
	} {
		if _, err := store.Create(t.Context(), spec, nil, nil); err == nil {
			t.Errorf("%s: it was made", field)
		}
	}
}
