package ops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
)

func (b *bundle) member(t *testing.T, id uuid.UUID, left string) {
	t.Helper()
	b.exec(t, `INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until)
		VALUES ($1, 'host', 7, 'v', clock_timestamp() + $2::text::interval)`, id, left)
}

func TestDrainAsksAWorkerOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	one, two, stale := uuid.UUID{15: 1}, uuid.UUID{15: 2}, uuid.UUID{15: 3}
	b.member(t, one, "1 min")
	b.member(t, two, "1 min")
	b.member(t, stale, "-1 s")
	b.member(t, uuid.UUID{15: 4}, "1 hour") // died before the clock stepped back
	b.exec(t, `UPDATE outbox_workers SET heartbeat_ttl = '10 s' WHERE worker_id = $1`, uuid.UUID{15: 4})
	drain := func(id uuid.UUID, dry bool) (ops.DrainResult, error) {
		return b.op.Drain(t.Context(), ops.DrainCommand{Worker: id, Actor: "ann", Reason: "repair", DryRun: dry})
	}
	asked := func() int { return int(b.exec(t, `SELECT FROM outbox_workers WHERE drain_requested_at IS NOT NULL`)) }
	if r, err := drain(one, true); err != nil || !r.Requested || r.Others != 1 || asked() != 0 {
		t.Errorf("dry run: %+v, %v, %d asked", r, err, asked())
	}
	if r, err := drain(one, false); err != nil || !r.Requested || r.Others != 1 || asked() != 1 {
		t.Errorf("%+v, %v, %d asked", r, err, asked())
	}
	if r, err := drain(one, false); err != nil || r.Requested {
		t.Errorf("asked again: %+v, %v", r, err)
	}
	if r, err := drain(two, true); err != nil || r.Others != 0 {
		t.Errorf("the last one: %+v, %v", r, err)
	}
	for id, want := range map[uuid.UUID]error{stale: ops.ErrWrongState, {15: 9}: ops.ErrNotFound} {
		var input *ops.InputError
		if _, err := drain(id, false); !errors.Is(err, want) || !errors.As(err, &input) || input.Field != ops.FieldWorker {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	list := b.audits(t)
	if len(list) != 1 || list[0].Action != "worker.drain" || list[0].Actor != "ann" || *list[0].Reason != "repair" ||
		!strings.Contains(string(list[0].Target), one.String()) {
		t.Errorf("the audit says %+v", list)
	}
}

func TestAuditIsPagedFromTheNewest(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	for i := range 5 {
		b.exec(t, `INSERT INTO outbox_audit (actor, action, target) VALUES ($1, 'x', '{"a": 9007199254740993}')`, fmt.Sprint("actor ", i))
	}
	var got []string
	after, pages := int64(0), 0
	for first := true; first || after != 0; first = false {
		page, err := b.op.Audit(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got = append(got, e.Actor)
			if e.Details != nil || e.Reason != "" || string(e.Target) != `{"a": 9007199254740993}` || e.At.IsZero() {
				t.Errorf("entry %+v", e)
			}
		}
		after, pages = page.Next, pages+1
	}
	if fmt.Sprint(got) != "[actor 4 actor 3 actor 2 actor 1 actor 0]" || pages != 3 {
		t.Errorf("%q on %d pages", got, pages)
	}
	if _, err := b.op.Audit(t.Context(), -1, 0); err == nil {
		t.Error("a negative id was taken")
	}
}

func TestPartitionTellsWhatStandsInItsWay(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	one, behind, failed, waiting, published := b.append(t, "a"), b.append(t, "a"), b.append(t, "b"), b.append(t, "c"), b.append(t, "d")
	b.kill(t, "too large", one)
	b.block(t, behind)
	b.fail(t, "hiccup", failed)
	b.publish(t, published)
	story, err := b.op.Partition(t.Context(), 0, 0)
	if err != nil || len(story.Heads) != 2 || len(story.Batches) != 1 {
		t.Fatalf("%+v, %v", story, err)
	}
	h := story.Heads[0]
	if h.Sequence != one || h.State != ops.Dead || h.Stream != "a" || h.Behind != 1 || h.LastError != "too large" || h.DeadAt == nil {
		t.Errorf("the first head is %+v", h)
	}
	if h := story.Heads[1]; h.Sequence != failed || h.State != ops.Failed || h.Behind != 0 || h.AvailableAt == nil || h.Attempts != 2 {
		t.Errorf("the second head is %+v", h)
	}
	if d := story.Batches[0]; d.First != published || d.Last != published || d.Published != 1 || *d.FirstInStream != 1 {
		t.Errorf("the batch is %+v", d)
	}
	if s, err := b.op.Partition(t.Context(), 7, 0); err != nil || len(s.Heads)+len(s.Batches) != 0 {
		t.Errorf("a partition that there is not: %+v, %v", s, err)
	}
	_ = waiting
}

func TestWhatWasDoneToAMessageIsShown(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	one, other := b.append(t, "a"), b.append(t, "b")
	b.kill(t, "first", one, other)
	if _, err := b.op.Requeue(t.Context(), command(one, other)); err != nil {
		t.Fatal(err)
	}
	b.kill(t, "second", one)
	if _, err := b.op.Discard(t.Context(), command(one)); err != nil {
		t.Fatal(err)
	}
	d, err := b.op.Show(t.Context(), one)
	if err != nil || len(d.Actions) != 2 {
		t.Fatalf("%+v, %v", d.Actions, err)
	}
	for i, want := range []ops.MessageAction{
		{Action: "dead.discard", LastError: "second", Generation: 1}, {Action: "dead.requeue", LastError: "first"},
	} {
		a := d.Actions[i]
		if a.Action != want.Action || a.LastError != want.LastError || a.Generation != want.Generation || a.Attempts != 3 ||
			a.Actor != "test" || a.Reason != "because" {
			t.Errorf("action %d is %+v, want %+v", i, a, want)
		}
	}
	if d, err := b.op.Show(t.Context(), other); err != nil || len(d.Actions) != 1 {
		t.Errorf("the other's are %+v, %v", d.Actions, err)
	}
}

func TestListBySequence(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	pending, published := b.append(t, "a"), b.append(t, "b")
	b.publish(t, published)
	for _, sequence := range []int64{pending, published} {
		l, err := b.op.List(t.Context(), ops.Filter{Sequence: sequence}, ops.Page{Within: time.Minute})
		if err != nil || len(l.Messages) != 1 || l.Messages[0].Sequence != sequence {
			t.Errorf("%d: %+v, %v", sequence, l, err)
		}
	}
	l, err := b.op.List(t.Context(), ops.Filter{Sequence: pending, EventID: uuid.New()}, ops.Page{})
	if err != nil || len(l.Messages) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, do := range []func() error{
		func() error { _, err := b.op.List(t.Context(), ops.Filter{Sequence: -1}, ops.Page{}); return err },
		func() error {
			_, err := b.op.Requeue(t.Context(), ops.Command{Actor: "a", Selection: ops.Selection{Filter: ops.Filter{Sequence: 1}}})
			return err
		},
	} {
		var input *ops.InputError
		if err := do(); !errors.As(err, &input) || input.Field != ops.FieldSequence {
			t.Errorf("error %v", err)
		}
	}
}

func TestARefusalNamesItsSequences(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	dead, pending := b.append(t, "a"), b.append(t, "b")
	b.kill(t, "e", dead)
	_, err := b.op.Requeue(t.Context(), command(dead, pending, 99))
	var input *ops.InputError
	if !errors.As(err, &input) || fmt.Sprint(input.Sequences) != fmt.Sprint([]int64{pending, 99}) {
		t.Errorf("error %v, sequences %v", err, input.Sequences)
	}
}
