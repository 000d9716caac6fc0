package replay_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
)

// A view's writers lock the tables below it: what they may still write between is
// none of the replay's business, as with a table.
func TestAViewsReplayEndsBelowOpenTransactions(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `CREATE VIEW inner_view AS SELECT * FROM events; CREATE VIEW seen AS SELECT * FROM inner_view WHERE tenant_id IS NULL`)
	var err error
	if b.store, err = replay.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "seen"}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `SELECT outbox_append('s', 't', '{}') FROM generate_series(1, 10)`)
	b.publish(t, "true")
	b.exec(t, `UPDATE outbox_watermark SET safe_sequence = 10`)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT outbox_append('late', 't', '{}')`); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `SELECT outbox_append('s', 't', '{}') FROM generate_series(1, 10)`)
	b.publish(t, "true")
	spec := all()
	spec.Actor = "test"
	plan, err := b.store.Count(t.Context(), spec, nil)
	pid := tx.Conn().PgConn().PID()
	if err != nil || plan.Last != 10 || plan.Held != "pid "+strconv.FormatUint(uint64(pid), 10) {
		t.Errorf("the dry run says %+v, %v; want the end at 10, held by pid %d", plan, err, pid)
	}
	j := b.create(t, all())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "true")
	if ended := b.run(t, j.ID, replay.RunConfig{}); ended.Last != 10 || ended.Replayed != 10 || *ended.Selected != 10 || j.Held == "" {
		t.Errorf("it went to %d and replayed %d, held by %q; want 10 and 10", ended.Last, ended.Replayed, j.Held)
	}
}

// Events that a live replay has queued were published before: a shadow made
// meanwhile holds them, and only the live one leaves them out.
func TestAShadowHoldsWhatAnotherReplayHasQueued(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	b.run(t, b.create(t, replay.Spec{Selection: replay.Selection{To: 40}}).ID, replay.RunConfig{})
	b.exec(t, `SELECT outbox_append('new', 't', '{}')`) // was never published
	for destination, want := range map[replay.Destination]int64{replay.Live: 57, replay.Shadow: 95} {
		spec := replay.Spec{Destination: destination, Selection: replay.Selection{All: true}}
		if destination == replay.Shadow {
			spec.Stream = "REPLAYS"
		}
		j := b.create(t, spec)
		spec.Actor = "test"
		plan, err := b.store.Count(t.Context(), spec, nil)
		if err != nil || plan.Selected != want || *j.Selected != want || plan.Waiting != 96-want {
			t.Errorf("%s: the dry run says %+v, %v, the replay %d; want %d", destination, plan, err, *j.Selected, want)
		}
	}
}

// Replays that are made at the same time have different generations.
func TestReplaysMadeAtOnceDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	var made sync.WaitGroup
	for range 8 {
		made.Go(func() {
			spec := all()
			spec.Actor = "test"
			if _, err := b.store.Create(t.Context(), spec, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	made.Wait()
	if n := one[int](t, b, `SELECT count(DISTINCT generation) FROM outbox_replays`); n != 8 {
		t.Errorf("8 replays have %d generations", n)
	}
}

// The promise does not hold when somebody changes the events meanwhile, and the
// replay says so.
func TestAReplayTellsThatItsEventsWereChanged(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	j := b.create(t, all())
	b.exec(t, `DELETE FROM events WHERE sequence = 55`)
	j = b.run(t, j.ID, replay.RunConfig{BatchSize: 7})
	if j.Replayed != 94 || !strings.Contains(j.Differs(), "95 events were selected and 94 dealt with") {
		t.Errorf("it is %+v and says %q", j, j.Differs())
	}
}

// What was interrupted while it was counted is counted by whoever goes on.
func TestCountingIsGoneOnWith(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	ctx, cancel := context.WithCancel(t.Context())
	spec := all()
	spec.Actor = "test"
	j, err := b.store.Create(ctx, spec, nil, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) || j.ID == 0 {
		t.Fatalf("replay %d was made: %v", j.ID, err)
	}
	counted := false
	j = b.run(t, j.ID, replay.RunConfig{Counting: func(at, end int64) { counted = at == end }})
	if !counted || j.Replayed != 95 || j.Differs() != "" {
		t.Errorf("it was counted: %v; it is %+v", counted, j)
	}
}

func TestRunsAndCancellationsRefuseWrongInput(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.appendMany(t, 10)
	j := b.create(t, all())
	var input *maintenance.InputError
	for _, rate := range []float64{-1, 0.01, 1e-300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := b.store.Run(t.Context(), j.ID, replay.RunConfig{Rate: rate}); !errors.As(err, &input) || input.Field != "rate" {
			t.Errorf("rate %g: %v", rate, err)
		}
	}
	for field, words := range map[string][2]string{
		"actor": {strings.Repeat("a", 201), ""}, "reason": {"a", strings.Repeat("r", 2001)},
	} {
		if _, err := b.store.Cancel(t.Context(), j.ID, words[0], words[1]); !errors.As(err, &input) || input.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, spec := range map[string]replay.Spec{
		"stream":        {Selection: replay.Selection{Stream: "nobody's"}},
		"tenant":        {Selection: replay.Selection{Tenant: "a\x00b"}},
		"shadow-stream": {Destination: replay.Shadow, Stream: "A.B", Selection: replay.Selection{All: true}},
		"shadow-prefix": {Destination: replay.Shadow, Stream: "A", Prefix: strings.Repeat("p", 201), Selection: replay.Selection{All: true}},
	} {
		spec.Actor = "test"
		if _, err := b.store.Count(t.Context(), spec, nil); !errors.As(err, &input) || input.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, prefix := range []string{"{id}", "a.{id}x", "a..b", ".a", "a.", "a b", "a.*", "a.>", "$JS.API", "a\nb", "a\r\nPUB b 0", "ä"} {
		spec := replay.Spec{Destination: replay.Shadow, Stream: "A", Prefix: prefix, Selection: replay.Selection{All: true}, Actor: "test"}
		if err := spec.WithDefaults().Validate(); !errors.As(err, &input) || input.Field != "shadow-prefix" {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
