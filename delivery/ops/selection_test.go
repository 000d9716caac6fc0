package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
)

// wantInput wants a complaint about one input that changed nothing.
func wantInput(t *testing.T, b *bundle, err error, field string, kind error, says ...string) {
	t.Helper()
	var input *ops.InputError
	if !errors.As(err, &input) || input.Field != field || !errors.Is(err, kind) && kind != nil {
		t.Errorf("error %v, want one about %s", err, field)
		return
	}
	for _, text := range says {
		if !strings.Contains(input.Problem, text) {
			t.Errorf("it does not say %q: %s", text, input.Problem)
		}
	}
	if n := one[int](t, b, `SELECT (SELECT count(*) FROM outbox_audit) + (SELECT count(*) FROM outbox WHERE generation > 0)
		+ (SELECT count(*) FROM outbox_deliveries WHERE skipped IS NOT NULL)`); n != 0 {
		t.Error("the refused command changed something")
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	dead, blocked := b.append(t, "s"), b.append(t, "s")
	published, silent := b.append(t, "p"), b.append(t, "p", `publish => false`)
	forgotten := b.append(t, "p")
	b.kill(t, "e", dead)
	b.block(t, blocked)
	b.publish(t, published)
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = $1`, forgotten)
	long := strings.Repeat("ü", 2001)
	now := time.Now()
	every := ops.Selection{All: true}
	by := func(s ops.Selection) ops.Command { return ops.Command{Selection: s} }
	where := func(f ops.Filter) ops.Command { return by(ops.Selection{Filter: f}) }
	for name, c := range map[string]struct {
		command ops.Command
		field   string
		kind    error
		says    string
	}{
		"nothing selected":     {by(ops.Selection{}), ops.FieldSelection, nil, "nothing is selected"},
		"two ways":             {by(ops.Selection{Sequences: []int64{dead}, All: true}), ops.FieldSelection, nil, "exclude"},
		"filter and all":       {by(ops.Selection{Filter: ops.Filter{Stream: "s"}, All: true}), ops.FieldSelection, nil, "exclude"},
		"negative count":       {ops.Command{Selection: every, Actor: "a", Expected: new(int64(-1))}, ops.FieldExpected, nil, "negative"},
		"another count":        {ops.Command{Selection: every, Expected: new(int64(2))}, ops.FieldExpected, ops.ErrCountChanged, "1 match, not 2"},
		"no actor":             {ops.Command{Selection: every, Reason: "r"}, ops.FieldActor, nil, "required"},
		"no reason":            {ops.Command{Selection: every, Actor: "a", Reason: " "}, ops.FieldReason, nil, "required"},
		"long reason":          {ops.Command{Selection: every, Actor: "a", Reason: long}, ops.FieldReason, nil, "2000 characters, got 2001"},
		"zero byte":            {ops.Command{Selection: every, Actor: "a", Reason: "a\x00"}, ops.FieldReason, nil, "UTF-8"},
		"failed ones":          {by(ops.Selection{All: true, State: ops.Failed}), ops.FieldState, nil, `that are dead, not "failed"`},
		"unknown state":        {by(ops.Selection{All: true, State: "odd"}), ops.FieldState, nil, "odd"},
		"sequence zero":        {command(0, dead), ops.FieldSequence, nil, "at least 1"},
		"unknown sequence":     {command(dead, 99), ops.FieldSequence, ops.ErrNotFound, "99 does not exist; nothing was changed"},
		"blocked":              {command(dead, blocked), ops.FieldSequence, ops.ErrWrongState, "2 is blocked, not dead"},
		"published":            {command(published), ops.FieldSequence, ops.ErrWrongState, "3 is published, not dead"},
		"audit only":           {command(silent), ops.FieldSequence, ops.ErrWrongState, "4 is audit_only"},
		"forgotten":            {command(forgotten), ops.FieldSequence, ops.ErrWrongState, "5 is not in the outbox"},
		"many unknown":         {command(11, 12, 13, 14, 15, 16, 17), ops.FieldSequence, ops.ErrNotFound, "15 does not exist and 2 more"},
		"unknown partition":    {where(ops.Filter{Partitions: []partition.ID{4}}), ops.FieldPartition, ops.ErrNotFound, "no partition 4"},
		"negative partition":   {where(ops.Filter{Partitions: []partition.ID{-1}}), ops.FieldPartition, nil, "negative"},
		"unknown event":        {where(ops.Filter{EventID: uuid.Max}), ops.FieldEventID, ops.ErrNotFound, "ffffffff"},
		"times the wrong way":  {where(ops.Filter{Since: now, Until: now}), ops.FieldUntil, nil, "after"},
		"stream of odd bytes":  {where(ops.Filter{Stream: "\xff"}), ops.FieldStream, nil, "UTF-8"},
		"states in the filter": {where(ops.Filter{Topic: "t", States: []ops.State{ops.Dead}}), ops.FieldState, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			complete := c.command
			if c.field != ops.FieldActor && c.field != ops.FieldReason {
				complete.Actor, complete.Reason = "a", "r"
			}
			for _, dry := range []bool{true, false} {
				complete.DryRun = dry
				_, err := b.op.Discard(t.Context(), complete)
				wantInput(t, b, err, c.field, c.kind, c.says)
			}
		})
	}
}

// Each filter takes what it says and nothing else; dry runs count the same.
func TestSelectionsTakeWhatTheySay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		selection func(b *bundle) ops.Selection
		want      []int64
	}{
		"all":       {func(*bundle) ops.Selection { return ops.Selection{All: true} }, []int64{1, 2, 3, 4}},
		"sequences": {func(*bundle) ops.Selection { return ops.Selection{Sequences: []int64{4, 2, 4}} }, []int64{2, 4}},
		"stream":    filtered(ops.Filter{Stream: "a"}, 1, 2),
		"topic":     filtered(ops.Filter{Topic: "shop"}, 2, 3),
		"type":      filtered(ops.Filter{Type: "thing.lost"}, 4),
		"tenant":    filtered(ops.Filter{Tenant: "acme"}, 3, 4),
		"error":     filtered(ops.Filter{ErrorContains: "100%_"}, 3),
		"two":       filtered(ops.Filter{Stream: "a", Topic: "shop"}, 2),
		"nothing":   filtered(ops.Filter{Stream: "none"}),
		"partition": filtered(ops.Filter{Partitions: []partition.ID{partition.Of("a", 64), partition.Of("c", 64)}}, 1, 2, 4),
		"event": {func(b *bundle) ops.Selection {
			var id uuid.UUID
			_ = b.pool.QueryRow(context.Background(), `SELECT event_id FROM events WHERE sequence = 3`).Scan(&id)
			return ops.Selection{Filter: ops.Filter{EventID: id}}
		}, []int64{3}},
		"time": {func(b *bundle) ops.Selection {
			var since, until time.Time
			_ = b.pool.QueryRow(context.Background(), `SELECT min(recorded_at) FILTER (WHERE sequence = 2),
				min(recorded_at) FILTER (WHERE sequence = 4) FROM events`).Scan(&since, &until)
			return ops.Selection{Filter: ops.Filter{Since: since, Until: until}}
		}, []int64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 64)
			b.append(t, "a")
			b.append(t, "a", `topic => 'shop'`)
			b.append(t, "bee", `topic => 'shop'`, `tenant_id => 'acme'`)
			b.exec(t, `SELECT outbox_append('c', 'thing.lost', '{}', tenant_id => 'acme')`)
			b.kill(t, "plain", 1, 2, 4)
			b.kill(t, "100%_ odd", 3)
			b.fail(t, "plain", b.append(t, "a", `topic => 'shop'`))
			command := ops.Command{Selection: c.selection(b), Actor: "a", Reason: "r", DryRun: true}
			if r, err := b.op.Skip(t.Context(), command); err != nil || r.Count != int64(len(c.want)) {
				t.Errorf("dry run: %+v, %v", r, err)
			}
			command.DryRun = false
			if r, err := b.op.Skip(t.Context(), command); err != nil || r.Count != int64(len(c.want)) {
				t.Errorf("%+v, %v", r, err)
			}
			got := one[[]int64](t, b, `SELECT coalesce(array_agg(global_sequence ORDER BY global_sequence), '{}')
				FROM outbox_messages WHERE state = 'skipped'`)
			if !slices.Equal(got, c.want) {
				t.Errorf("skipped %v, want %v", got, c.want)
			}
		})
	}
}

type selecting = struct {
	selection func(b *bundle) ops.Selection
	want      []int64
}

func filtered(f ops.Filter, want ...int64) selecting {
	return selecting{func(*bundle) ops.Selection { return ops.Selection{Filter: f} }, want}
}

// waits returns when somebody waits for a lock in the bundle's database.
func waits(t *testing.T, b *bundle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; n == 0; {
		if err := b.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatalf("nobody waits for a lock: %v", err)
		}
	}
}

// What somebody else changed before its turn is left alone.
func TestASelectionMeetsOthers(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*ops.Operator, context.Context, ops.Command) (ops.Changed, error){
		"skip":    (*ops.Operator).Skip,
		"requeue": (*ops.Operator).Requeue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			first, second := b.append(t, "s"), b.append(t, "t")
			b.kill(t, "e", first, second)
			tx, err := b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			// A worker's mark, or another operator, holds the partition.
			if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_partitions FOR NO KEY UPDATE`); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			var r ops.Changed
			go func() {
				var err error
				r, err = do(b.op, t.Context(), ops.Command{Selection: ops.Selection{All: true}, Actor: "a", Reason: "r"})
				done <- err
			}()
			waits(t, b)
			if _, err := tx.Exec(t.Context(), `UPDATE outbox SET dead_at = NULL, generation = 7 WHERE global_sequence = $1`, first); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil || r != (ops.Changed{Count: 1, Gone: 1}) {
				t.Fatalf("%+v, %v", r, err)
			}
			b.wantQueue(t, "s", at(first, "failed"))
			if got := b.queue(t, "s")[0]; got.Generation != 7 {
				t.Errorf("changed by somebody else, and again: %+v", got)
			}
		})
	}
}

// A row that stays locked ends the command, which changes nothing.
func TestABusyPartitionEndsTheCommand(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	dead := b.append(t, "s")
	b.kill(t, "e", dead)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM outbox_partitions FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	if r, err := b.op.Requeue(t.Context(), command(dead)); !errors.Is(err, ops.ErrBusy) || r.Count != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(dead, "dead"))
}

// Counting goes on where a step of it ends.
func TestLargeSelectionsAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, dead_at)
		SELECT n, n % 2, 's', true, clock_timestamp() FROM generate_series(1, 10500) AS n`)
	r, err := b.op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{All: true}, Actor: "a", DryRun: true})
	if err != nil || r.Count != 10500 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A resize moves messages to where a command has looked already: it says so instead of passing over them.
func TestAResizeBetweenTwoChunksIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	sequences := make([]int64, 501) // one more than a chunk
	for i := range sequences {
		sequences[i] = b.append(t, fmt.Sprint("s-", i))
	}
	b.kill(t, "e", sequences...)
	c := ops.Command{Selection: ops.Selection{All: true}, Actor: "ann", Reason: "because"}
	b.exec(t, `UPDATE outbox_parked SET dead_at = dead_at + interval '1 hour'`) // the clock has stepped back since
	c.Progress = func(ops.Changed) { b.exec(t, `UPDATE outbox_settings SET resized_at = clock_timestamp()`) }
	r, err := b.op.Requeue(t.Context(), c)
	if r.Count != 500 || !errors.Is(err, ops.ErrCountChanged) || !strings.Contains(err.Error(), "the partitions were resized meanwhile") {
		t.Errorf("%+v, %v", r, err)
	}
}
