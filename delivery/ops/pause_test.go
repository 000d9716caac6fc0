package ops_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/partition"
)

func paused(t *testing.T, b *bundle) string {
	t.Helper()
	return fmt.Sprint(one[[]int](t, b, `SELECT coalesce(array_agg(partition_key::int ORDER BY partition_key), '{}') FROM outbox_partitions
		WHERE paused_at IS NOT NULL`))
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	some := ops.PauseCommand{Partitions: []partition.ID{3, 1, 3}, Actor: "ann", Reason: "broken consumer"}
	dry := some
	dry.DryRun = true
	if r, err := b.op.Pause(t.Context(), dry); err != nil || fmt.Sprint(r) != "{[1 3] []}" || paused(t, b) != "[]" {
		t.Fatalf("dry run: %v, %v, paused %s", r, err, paused(t, b))
	}
	if r, err := b.op.Pause(t.Context(), some); err != nil || fmt.Sprint(r) != "{[1 3] []}" || paused(t, b) != "[1 3]" {
		t.Fatalf("%v, %v, paused %s", r, err, paused(t, b))
	}
	since := one[string](t, b, `SELECT paused_at::text FROM outbox_partitions WHERE partition_key = 1`)
	every := ops.PauseCommand{All: true, Actor: "bob"}
	if r, err := b.op.Pause(t.Context(), every); err != nil || fmt.Sprint(r) != "{[0 2] [1 3]}" || paused(t, b) != "[0 1 2 3]" {
		t.Fatalf("%v, %v, paused %s", r, err, paused(t, b))
	}
	if now := one[string](t, b, `SELECT paused_at::text FROM outbox_partitions WHERE partition_key = 1`); now != since {
		t.Errorf("a partition that was paused at %s is paused since %s", since, now)
	}
	if r, err := b.op.Pause(t.Context(), every); err != nil || fmt.Sprint(r) != "{[] [0 1 2 3]}" {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := b.op.Resume(t.Context(), some); err != nil || fmt.Sprint(r) != "{[1 3] []}" || paused(t, b) != "[0 2]" {
		t.Fatalf("%v, %v, paused %s", r, err, paused(t, b))
	}
	list := b.audits(t)
	if len(list) != 3 {
		t.Fatalf("%d rows of audit, want one for each change", len(list))
	}
	for i, want := range []string{
		`ann partition.pause {"partitions":[1,3]} {"count":2}`,
		`bob partition.pause {"all":true,"partitions":[0,2]} {"count":2,"unchanged":[1,3]}`,
		`ann partition.resume {"partitions":[1,3]} {"count":2}`,
	} {
		a := list[i]
		if got := fmt.Sprint(a.Actor, " ", a.Action, " ", sorted(t, a.Target), " ", sorted(t, a.Details)); got != want {
			t.Errorf("audit %s, want %s", got, want)
		}
	}
	if list[0].Reason == nil || *list[0].Reason != "broken consumer" || list[1].Reason != nil {
		t.Error("the audit's reasons are wrong")
	}
}

func TestPausesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	for name, c := range map[string]struct {
		command ops.PauseCommand
		field   string
		kind    error
	}{
		"nothing":     {ops.PauseCommand{Actor: "a"}, ops.FieldSelection, nil},
		"both":        {ops.PauseCommand{Actor: "a", All: true, Partitions: []partition.ID{1}}, ops.FieldSelection, nil},
		"no actor":    {ops.PauseCommand{All: true}, ops.FieldActor, nil},
		"not there":   {ops.PauseCommand{Actor: "a", Partitions: []partition.ID{0, 4}}, ops.FieldPartition, ops.ErrNotFound},
		"below there": {ops.PauseCommand{Actor: "a", Partitions: []partition.ID{-1}}, ops.FieldPartition, ops.ErrNotFound},
	} {
		for _, dry := range []bool{true, false} {
			c.command.DryRun = dry
			_, err := b.op.Pause(t.Context(), c.command)
			wantInput(t, b, err, c.field, c.kind)
			if paused(t, b) != "[]" {
				t.Errorf("%s: partitions were paused", name)
			}
		}
	}
}
