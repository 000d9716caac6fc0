package ops_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
)

func TestShowADeadMessageAndWhatWaitsBehindIt(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	first := one[int64](t, b, `SELECT outbox_append('s', 'thing.done', '{"a": "b"}', tenant_id => 'acme', topic => 'shop',
		metadata => '{"traceparent": "00-a", "headers": {"x": "y"}}')`)
	var behind []int64
	for range 7 {
		behind = append(behind, b.append(t, "s"))
	}
	b.append(t, "other")
	b.kill(t, "too large", first, behind[0])
	b.block(t, behind[1], behind[2]) // the others are in the hot path still

	d, err := b.op.Show(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if d.State != ops.Dead || d.Attempts != 3 || d.LastError != "too large" || d.DeadAt == nil || d.AvailableAt == nil ||
		d.Topic != "shop" || d.Type != "thing.done" || d.StreamVersion != 1 || d.PublishedAt != nil || d.BlockedBy != nil ||
		len(d.Deliveries) != 0 {
		t.Errorf("message %+v", d.Message)
	}
	if d.Event.TenantID != "acme" || d.Event.OccurredAt == nil || sorted(t, d.Event.Metadata) != `{"headers":{"x":"y"},"traceparent":"00-a"}` {
		t.Errorf("event %+v", d.Event)
	}
	if want := "[{2 dead} {3 blocked} {4 blocked} {5 pending} {6 pending}]"; d.Behind != 7 || fmt.Sprint(d.Next) != want {
		t.Errorf("%d wait behind it, first %v, want %s", d.Behind, d.Next, want)
	}
	last, err := b.op.Show(t.Context(), behind[6])
	if err != nil || last.BlockedBy == nil || *last.BlockedBy != (ops.Neighbour{Sequence: first, State: ops.Dead}) || last.Behind != 0 {
		t.Errorf("the last one: %+v, %v", last, err)
	}
	if payload, err := b.op.Payload(t.Context(), first); err != nil || string(payload) != `{"a": "b"}` {
		t.Errorf("payload %s, %v", payload, err)
	}
	id := one[uuid.UUID](t, b, `SELECT event_id FROM events WHERE sequence = $1`, first)
	if found, err := b.op.Find(t.Context(), id); err != nil || found != first || d.EventID != id {
		t.Errorf("found %d, %v", found, err)
	}
}

// A message that was replayed has several deliveries, and the last one counts.
func TestShowSettledMessages(t *testing.T) {
	t.Parallel()
	b := history(t, 4, 2)
	want := view(t, b)
	seen := map[string]bool{}
	for _, m := range want {
		d, err := b.op.Show(t.Context(), m.Sequence)
		if err != nil || text(d.Message) != text(m) {
			t.Fatalf("message %d: %v\n got %s\nwant %s", m.Sequence, err, text(d.Message), text(m))
		}
		for i, one := range d.Deliveries {
			seen[fmt.Sprintf("%s %t %d %d %s", one.State, one.Lost, one.Generation, i, d.State)] = true
		}
	}
	for _, kind := range []string{
		"published false 0 0 published", "published false 1 1 published", "skipped false 0 0 skipped",
		"discarded false 0 0 discarded", "published true 1 1 pending",
	} {
		if !seen[kind] {
			t.Errorf("no delivery was %q among %v", kind, seen)
		}
	}
	known := func(sequence int64) bool {
		return slices.ContainsFunc(want, func(m ops.Message) bool { return m.Sequence == sequence })
	}
	states := map[ops.State]int{}
	for _, sequence := range one[[]int64](t, b, `SELECT array_agg(sequence) FROM events`) {
		if d, err := b.op.Show(t.Context(), sequence); err != nil || known(sequence) == (d.State == ops.Unknown || d.State == ops.AuditOnly) {
			t.Errorf("event %d is %s: %v", sequence, d.State, err)
		} else {
			states[d.State]++
		}
	}
	if states[ops.Unknown] <= 20 || states[ops.AuditOnly] == 0 {
		t.Errorf("states %v, want 20 forgotten ones, some lost ones, and some for the audit only", states)
	}
}

func TestShowWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	_, err := b.op.Show(t.Context(), 5)
	wantInput(t, b, err, ops.FieldSequence, ops.ErrNotFound, "no message 5")
	_, err = b.op.Find(t.Context(), uuid.Max)
	wantInput(t, b, err, ops.FieldEventID, ops.ErrNotFound, uuid.Max.String())
	_, err = b.op.Payload(t.Context(), 5)
	wantInput(t, b, err, ops.FieldSequence, ops.ErrNotFound, "no event 5")

	// A pointer without its event is shown as far as it goes, and can be mended.
	lonely := b.append(t, "s")
	b.exec(t, `DELETE FROM events`)
	b.kill(t, "event not found", lonely)
	d, err := b.op.Show(t.Context(), lonely)
	if err != nil || d.Event != nil || d.State != ops.Dead || d.Stream != "s" {
		t.Errorf("%+v, %v", d, err)
	}
	l, err := b.op.List(t.Context(), ops.Filter{}, ops.Page{Within: time.Minute})
	if err != nil || len(l.Messages) != 1 || l.Messages[0].EventID != uuid.Nil {
		t.Errorf("%+v, %v", l, err)
	}
	if r, err := b.op.Discard(t.Context(), command(lonely)); err != nil || r.Count != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if d, err = b.op.Show(t.Context(), lonely); err != nil || d.State != ops.Discarded || len(d.Deliveries) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}
