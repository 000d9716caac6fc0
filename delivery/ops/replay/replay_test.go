package replay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/ops/replay"
)

// Whatever is selected and however often it is interrupted: what the dry run
// counts is what is queued again, each event once.
func TestAReplayKeepsWhatTheDryRunPromised(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.appendMany(t, 1000)
	b.publish(t, "true")
	b.appendMany(t, 100) // these wait
	tenth := one[time.Time](t, b, `SELECT recorded_at FROM events WHERE sequence = 101`)
	for name, c := range map[string]struct {
		spec replay.Spec
		want string // the events by SQL
	}{
		"all":     {all(), `true`},
		"range":   {replay.Spec{Selection: replay.Selection{From: 100, To: 399}}, `sequence BETWEEN 100 AND 399`},
		"stream":  {replay.Spec{Selection: replay.Selection{Stream: "s-3"}}, `stream_id = 's-3'`},
		"type":    {replay.Spec{Selection: replay.Selection{Type: "t-1", Topic: "topic-2"}}, `event_type = 't-1' AND topic = 'topic-2'`},
		"tenant":  {replay.Spec{Selection: replay.Selection{Tenant: "tenant-1"}}, `tenant_id = 'tenant-1'`},
		"time":    {replay.Spec{Selection: replay.Selection{Until: &tenth}}, `sequence < 101`},
		"current": {replay.Spec{Kind: replay.RebuildCurrent, Selection: replay.Selection{All: true}}, `sequence IN (SELECT max(sequence) FROM events WHERE NOT audit_only GROUP BY stream_id)`},
		"current of a type": {
			replay.Spec{Kind: replay.RebuildCurrent, Selection: replay.Selection{Type: "t-1", To: 700}},
			`sequence IN (SELECT max(sequence) FROM events WHERE NOT audit_only AND event_type = 't-1' AND sequence <= 700 GROUP BY stream_id)`,
		},
	} {
		want := one[int64](t, b, `SELECT count(*) FROM events WHERE NOT audit_only AND sequence <= 1000 AND `+c.want)
		spec := c.spec
		spec.Actor = "test"
		plan, err := b.store.Count(t.Context(), spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := b.create(t, c.spec)
		if plan.Selected != want || *j.Selected != want {
			t.Errorf("%s: the dry run promises %d and the replay %d events, want %d", name, plan.Selected, *j.Selected, want)
		}
		for _, part := range []int64{want / 3, want / 2} {
			if part > 0 {
				b.interrupt(t, j.ID, part, replay.RunConfig{BatchSize: 7})
			}
		}
		j = b.run(t, j.ID, replay.RunConfig{BatchSize: 7})
		got := one[int64](t, b, `SELECT count(*) FROM outbox WHERE generation = $1 AND parked
			AND global_sequence IN (SELECT sequence FROM events WHERE NOT audit_only AND `+c.want+`)`, j.Generation)
		if j.State != replay.Done || j.Replayed != want || j.Failed+j.Gone != 0 || got != want {
			t.Errorf("%s: %+v, %d of its rows are in the outbox, want %d", name, j, got, want)
		}
		if n := one[int](t, b, `SELECT count(*) FROM outbox_replay_sequences`); n != 0 {
			t.Errorf("%s: %d sequences are left behind", name, n)
		}
		b.publish(t, "generation > 0")
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE NOT parked AND generation = 0`); n != 95 {
		t.Errorf("%d of 95 events wait as before", n)
	}
}

func TestRowsAreQueuedBehindEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `SELECT outbox_append(s, 't', '{}') FROM unnest('{a,b,a,a,b}'::text[]) AS s`)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = now() WHERE global_sequence = 3`)
	b.exec(t, `UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = 4`)
	b.publish(t, "NOT parked")
	j := b.create(t, all())
	b.run(t, j.ID, replay.RunConfig{BatchSize: 2})
	want := []string{"1 100 f", "2 100 f", "3 0 f", "4 0 t", "5 100 t"}
	if got := b.queued(t, "true"); !slices.Equal(got, want) {
		t.Errorf("the outbox holds %q, want %q", got, want)
	}
}

// Generations lie above all that were in use, and a replay that was laid aside
// while another one was made goes on under a higher one.
func TestGenerationsAscend(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 30)
	b.exec(t, `UPDATE outbox SET generation = 103 WHERE global_sequence = 2`)
	b.publish(t, "true")
	first := b.create(t, all())
	if first.Generation != 200 {
		t.Errorf("the first replay has generation %d, want 200", first.Generation)
	}
	b.interrupt(t, first.ID, 10, replay.RunConfig{BatchSize: 5})
	b.publish(t, "true")
	second := b.create(t, all())
	if second = b.run(t, second.ID, replay.RunConfig{}); second.Generation != 300 {
		t.Errorf("the second replay has generation %d, want 300", second.Generation)
	}
	b.publish(t, "true")
	if first = b.run(t, first.ID, replay.RunConfig{}); first.Generation != 400 {
		t.Errorf("the first replay went on under generation %d, want 400", first.Generation)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE generation <> 400`); n != 0 {
		t.Errorf("%d rows have another generation", n)
	}
}

func TestOneLiveReplayRunsAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 30)
	b.publish(t, "true")
	killed, other := b.create(t, all()), b.create(t, all())
	b.exec(t, `UPDATE outbox_replays SET state = 'running', runner = $2 WHERE id = $1`, killed.ID, uuid.New())
	if _, err := b.store.Run(t.Context(), other.ID, replay.RunConfig{}); !errors.Is(err, replay.ErrLiveRunning) {
		t.Errorf("the other ran beside a live one: %v", err)
	}
	if j := b.run(t, killed.ID, replay.RunConfig{}); j.State != replay.Done || j.Generation != killed.Generation {
		t.Errorf("the killed one is %+v", j)
	}
	b.publish(t, "true")
	if _, err := b.store.Run(t.Context(), killed.ID, replay.RunConfig{}); !errors.Is(err, replay.ErrEnded) {
		t.Errorf("it ran twice: %v", err)
	}
	b.run(t, other.ID, replay.RunConfig{})
}

// A process that was taken for dead finds at its next step that it is not the
// runner any more, and that step changes nothing.
func TestAnOldRunnerChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	j := b.create(t, all())
	var inner replay.Job
	_, err := b.store.Run(t.Context(), j.ID, replay.RunConfig{BatchSize: 10, Progress: func(at replay.Job) {
		if at.Replayed == 20 {
			inner = b.run(t, j.ID, replay.RunConfig{BatchSize: 10})
		}
	}})
	if !errors.Is(err, replay.ErrTaken) || inner.Replayed != 95 {
		t.Errorf("the old runner ended with %v, the new one replayed %d", err, inner.Replayed)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE generation = 100`); n != 95 {
		t.Errorf("%d of 95 events are queued", n)
	}
	b.publish(t, "generation > 0")
	j = b.create(t, all())
	_, err = b.store.Run(t.Context(), j.ID, replay.RunConfig{BatchSize: 10, Progress: func(at replay.Job) {
		if at.Replayed == 20 { // another one takes it, and does nothing yet
			b.exec(t, `UPDATE outbox_replays SET runner = gen_random_uuid() WHERE id = $1`, j.ID)
		}
	}})
	if n := one[int](t, b, `SELECT count(*) FROM outbox`); !errors.Is(err, replay.ErrTaken) || n != 20 {
		t.Errorf("%d events were queued by a runner that was replaced after 20: %v", n, err)
	}
	if _, err := b.store.Cancel(t.Context(), j.ID, "test", ""); err != nil {
		t.Fatal(err)
	}
	c := b.create(t, all())
	if _, err := b.store.Cancel(t.Context(), c.ID, "test", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Run(t.Context(), c.ID, replay.RunConfig{}); !errors.Is(err, replay.ErrEnded) {
		t.Errorf("a cancelled replay ran: %v", err)
	}
}

// The replay waits for an event that came back into the outbox, and for room.
func TestAReplayWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 30)
	b.publish(t, "true")
	j := b.create(t, all())
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, parked, dead_at, stream_id)
		SELECT sequence, outbox_partition(stream_id, 2), true, now(), stream_id FROM events WHERE sequence = 12`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var crowded, occupied bool
	done, err := b.store.Run(ctx, j.ID, replay.RunConfig{MaxPending: 8, BatchSize: 5, Progress: func(at replay.Job) {
		switch {
		case strings.Contains(at.WaitingFor, "event 12 is in the outbox again (dead)"):
			occupied = true
			b.exec(t, `DELETE FROM outbox WHERE dead_at IS NOT NULL`)
		case strings.Contains(at.WaitingFor, "max-pending"):
			crowded = true
			b.publish(t, "true")
		}
	}})
	if err != nil || done.Replayed != 29 || !crowded || !occupied {
		t.Errorf("replayed %d of 29, waited for room %v, for the event %v: %v", done.Replayed, crowded, occupied, err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE generation > 0`); n > 8 {
		t.Errorf("%d rows wait, at most 8 may", n)
	}
}

// What was dead and is tried again waits for the workers, too: there is room for so much of it.
func TestARetryWaitsForRoom(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `SELECT outbox_append('s-' || n, 't', '{}') FROM generate_series(1, 30) AS n`)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = now(), attempts = 8`)
	j := b.create(t, replay.Spec{Kind: replay.Retry, Selection: replay.Selection{All: true}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	most := 0
	done, err := b.store.Run(ctx, j.ID, replay.RunConfig{MaxPending: 8, BatchSize: 5, Progress: func(at replay.Job) {
		most = max(most, one[int](t, b, `SELECT count(*) FROM outbox WHERE dead_at IS NULL`))
		if strings.Contains(at.WaitingFor, "max-pending") {
			b.publish(t, "dead_at IS NULL")
		}
	}})
	if err != nil || done.Replayed != 30 || most > 8 {
		t.Errorf("%d of 30 were tried again, up to %d at once, want 8: %v", done.Replayed, most, err)
	}
}

// What an operator decided not to publish stays unpublished, also when the history
// has forgotten it.
func TestDiscardedEventsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 10)
	b.publish(t, "true")
	b.exec(t, `INSERT INTO outbox_audit (actor, action, target) VALUES ('a', 'dead.discard', '{"sequences": [3, 5]}'), ('a', 'scheduled.cancel', '{"sequences": [7]}'),
		('a', 'dead.requeue', '{"sequences": [8]}')`)
	spec := all()
	spec.Actor = "test"
	plan, err := b.store.Count(t.Context(), spec, nil)
	if err != nil || plan.Selected != 7 || plan.Unwanted != 3 {
		t.Errorf("the dry run says %+v, %v; want 7 and 3", plan, err)
	}
	j := b.create(t, all())
	if j = b.run(t, j.ID, replay.RunConfig{}); *j.Selected != 7 || j.Replayed != 7 {
		t.Errorf("it is %+v", j)
	}
	if got := b.queued(t, "global_sequence IN (3, 5, 7)"); len(got) > 0 {
		t.Errorf("the outbox holds %q", got)
	}
}

func TestRetryTakesTheRowsThatWereChosen(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `SELECT outbox_append(s, 't-' || s, '{}') FROM unnest('{a,a,b,c,d,e}'::text[]) AS s`)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = now(), attempts = 8 WHERE stream_id IN ('a', 'b') AND global_sequence <> 2`)
	b.exec(t, `UPDATE outbox SET parked = true, blocked = true WHERE global_sequence = 2`)
	b.exec(t, `UPDATE outbox SET parked = true, attempts = 1, available_at = now() + interval '1 h' WHERE stream_id IN ('c', 'd')`)
	j := b.create(t, replay.Spec{Kind: replay.Retry, Selection: replay.Selection{All: true}})
	if *j.Selected != 4 {
		t.Errorf("%d rows are chosen, want 4", *j.Selected)
	}
	b.publish(t, "stream_id = 'd'") // by its next attempt
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = now() WHERE stream_id = 'e'`)
	j = b.run(t, j.ID, replay.RunConfig{BatchSize: 2})
	if j.Replayed != 3 || j.Gone != 1 || j.State != replay.Done {
		t.Errorf("it is %+v", j)
	}
	want := []string{"1 1 f", "2 0 t", "3 1 f", "4 1 f"}
	if got := b.queued(t, "dead_at IS NULL AND attempts = 0 AND available_at <= now()"); !slices.Equal(got, want) {
		t.Errorf("the outbox holds %q, want %q", got, want)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox_audit WHERE action = 'replay.retry' AND details::text LIKE '%attempts": 8%'`); n == 0 {
		t.Error("the audit does not say what the rows were")
	}
}

// Events of transactions that are open when a replay is made are none of its
// business, although their sequences are lower.
func TestAReplayEndsBelowOpenTransactions(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 10)
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
	b.appendMany(t, 10)
	b.publish(t, "true")
	j := b.create(t, all())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "true")
	if j = b.run(t, j.ID, replay.RunConfig{}); j.Last != 10 || j.Replayed != 10 {
		t.Errorf("it went to %d and replayed %d, want 10 and 10", j.Last, j.Replayed)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	now := time.Now()
	for field, spec := range map[string]replay.Spec{
		"selection":     {},
		"to-sequence":   {Selection: replay.Selection{From: 5, To: 4}},
		"until":         {Selection: replay.Selection{Since: &now, Until: &now}},
		"kind":          {Kind: "x", Selection: replay.Selection{All: true}},
		"shadow-stream": {Destination: replay.Shadow, Selection: replay.Selection{All: true}},
		"shadow-prefix": {Destination: replay.Shadow, Prefix: "a.>", Stream: "S", Selection: replay.Selection{All: true}},
	} {
		spec.Actor = "test"
		var input *maintenance.InputError
		if _, err := b.store.Create(t.Context(), spec, nil, nil); !errors.As(err, &input) || input.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	expected := int64(3)
	spec := all()
	spec.Actor = "test"
	if _, err := b.store.Create(t.Context(), spec, &expected, nil); err == nil {
		t.Error("another number was expected, and the replay was made")
	}
	spec.Destination, spec.Stream = replay.Shadow, "REPLAYS"
	if _, err := b.store.Create(t.Context(), spec, &expected, nil); err == nil {
		t.Error("another number was expected, and the shadow was made")
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox_replays WHERE state <> 'cancelled'`); n != 0 {
		t.Errorf("%d replays were made", n)
	}
	if j := b.create(t, all()); j.Generation != 100 {
		t.Errorf("what was refused used up a generation: the next is %d", j.Generation)
	}
}
