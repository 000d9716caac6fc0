package ops_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery/ops"
)

// A requeued message begins anew where it is; what waits behind it still waits.
func TestRequeueBeginsAnewAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	first, second, third := b.append(t, "s"), b.append(t, "s"), b.append(t, "s")
	neighbour := b.append(t, "other")
	b.kill(t, "too large", first, neighbour)
	b.block(t, second) // the third was not claimed yet

	r, err := b.op.Requeue(t.Context(), ops.Command{Selection: ops.Selection{Sequences: []int64{first}}, Actor: "ann"})
	if err != nil || r != (ops.Changed{Count: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(first, "pending"), at(second, "blocked"), at(third, "pending"))
	b.wantQueue(t, "other", at(neighbour, "dead"))
	if got := b.queue(t, "s")[0]; got.Generation != 1 || got.Attempts != 0 || got.Blocked || !got.Due || got.LastError != nil {
		t.Errorf("requeued: %+v", got)
	}
	if !one[bool](t, b, `SELECT parked FROM outbox WHERE global_sequence = $1`, first) {
		t.Error("the requeued row left the parked part, where its stream is drained in order")
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox_deliveries`); n != 0 {
		t.Error("a requeue was recorded as a delivery")
	}
}

// A later dead message stays behind an earlier one, and the result says so.
func TestARequeueBehindADeadMessageWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first, second, third, fourth := b.append(t, "s"), b.append(t, "s"), b.append(t, "s"), b.append(t, "s")
	b.kill(t, "e", first, third)
	b.block(t, second, fourth)

	r, err := b.op.Requeue(t.Context(), command(third))
	if err != nil || r != (ops.Changed{Count: 1, Waiting: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(first, "dead"), at(second, "blocked"), at(third, "blocked"), at(fourth, "blocked"))

	// Both at once: nothing waits behind a dead one any more.
	b.kill(t, "e", third)
	r, err = b.op.Requeue(t.Context(), command(third, first))
	if err != nil || r != (ops.Changed{Count: 2}) {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(first, "pending"), at(second, "blocked"), at(third, "blocked"), at(fourth, "blocked"))
	if generations := b.queue(t, "s"); generations[2].Generation != 2 || generations[0].Generation != 1 {
		t.Errorf("generations %+v", generations)
	}
}

func TestRequeueFailedMessagesNow(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	failed, behind, dead := b.append(t, "s"), b.append(t, "s"), b.append(t, "dead")
	b.fail(t, "no", failed)
	b.block(t, behind)
	b.kill(t, "no", dead)
	c := ops.Command{Actor: "ann", Selection: ops.Selection{State: ops.Failed, All: true}}
	if r, err := b.op.Requeue(t.Context(), c); err != nil || r.Count != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(failed, "pending"), at(behind, "blocked"))
	b.wantQueue(t, "dead", at(dead, "dead"))
	if got := b.queue(t, "s")[0]; got.Generation != 1 || got.Attempts != 0 || !got.Due || got.LastError != nil {
		t.Errorf("requeued: %+v", got)
	}
	if a := b.audits(t); len(a) != 1 || a[0].Action != "failed.requeue" || a[0].Reason != nil {
		t.Errorf("audit %+v", a)
	}
}

// Skipped and discarded messages go, are shown as what they are, and the next
// one of their stream leads it.
func TestSkipAndDiscardSettleWithoutAMessage(t *testing.T) {
	t.Parallel()
	for state, settle := range map[string]func(*ops.Operator, context.Context, ops.Command) (ops.Changed, error){
		"skipped":   (*ops.Operator).Skip,
		"discarded": (*ops.Operator).Discard,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.exec(t, `UPDATE outbox_partitions SET lease_epoch = 7`)
			first, second, third, fourth := b.append(t, "s"), b.append(t, "s"), b.append(t, "s"), b.append(t, "s")
			b.kill(t, "e", first, third)
			b.block(t, second, fourth)
			b.exec(t, `UPDATE outbox SET generation = 2 WHERE global_sequence = $1`, third)

			r, err := settle(b.op, t.Context(), command(first, third))
			if err != nil || r != (ops.Changed{Count: 2}) {
				t.Fatalf("%+v, %v", r, err)
			}
			b.wantQueue(t, "s", at(second, "pending"), at(fourth, "blocked"))
			for sequence, want := range map[int64]int{first: 0, third: 2} {
				got := one[[]any](t, b, `SELECT ARRAY[state, attempts::text, generation::text, coalesce(stream_sequence::text, '-')]
					FROM outbox_messages WHERE global_sequence = $1`, sequence)
				if got[0] != state || got[1] != "3" || got[2] != []string{"0", "", "2"}[want] || got[3] != "-" {
					t.Errorf("message %d is %v", sequence, got)
				}
			}
			got := one[string](t, b, `SELECT format('%s %s %s %s %s %s %s %s', lease_epoch, first_sequence, last_sequence, sequences,
				stream_sequences, skipped, discarded, message_count) FROM outbox_deliveries`)
			want := "7 1 3 {1,3} {NULL,NULL} {1,3}  0"
			if state == "discarded" {
				want = "7 1 3 {1,3} {NULL,NULL} {1,3} {1,3} 0"
			}
			if got != want {
				t.Errorf("history %s, want %s", got, want)
			}
			another := b.append(t, "other")
			b.kill(t, "e", another)
			if r, err := settle(b.op, t.Context(), command(another)); err != nil || r.Count != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			if n := one[int](t, b, `SELECT sum(skipped)::int FROM outbox_throughput WHERE published = 0 AND failed = 0`); n != 3 {
				t.Errorf("the throughput counts %d skipped", n)
			}
		})
	}
}

// The audit keeps what the outbox forgets.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	b := setup(t, 8)
	one, two := b.append(t, "a"), b.append(t, "b", `topic => 'shop'`)
	b.kill(t, "event of one", one)
	b.kill(t, "event of two", two)
	if _, err := b.op.Discard(t.Context(), ops.Command{
		Selection: ops.Selection{Filter: ops.Filter{Topic: "shop", ErrorContains: "of two"}}, Actor: "ann", Reason: "never valid",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.op.Requeue(t.Context(), command(one)); err != nil {
		t.Fatal(err)
	}
	list := b.audits(t)
	if len(list) != 2 {
		t.Fatalf("%d rows of audit", len(list))
	}
	for i, want := range []struct{ actor, action, reason, target, details string }{
		{
			"ann", "dead.discard", "never valid",
			`"selection":{"error_contains":"of two","state":"dead","topic":"shop"}`, `"last_error":"event of two"`,
		},
		{"test", "dead.requeue", "because", `"sequences":[1]`, `"last_error":"event of one"`},
	} {
		a := list[i]
		if a.Actor != want.actor || a.Action != want.action || *a.Reason != want.reason || a.At.IsZero() {
			t.Errorf("audit %+v", a)
		}
		for _, text := range []string{want.details, `"attempts":3`, `"count":1`} {
			if !strings.Contains(sorted(t, a.Details), text) {
				t.Errorf("details %s, want %s", a.Details, text)
			}
		}
		if !strings.Contains(sorted(t, a.Target), want.target) {
			t.Errorf("target %s, want %s", a.Target, want.target)
		}
	}
}

// sorted writes JSON without blanks and with its keys in order.
func sorted(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Large selections are several transactions, each with its row of audit; what
// dies again meanwhile is not taken twice.
func TestLargeSelectionsRunInChunks(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.appendMany(t, 1203)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 1, last_error = 'e'`)
	var seen []int64
	c := ops.Command{Actor: "ann", Selection: ops.Selection{All: true}, Progress: func(r ops.Changed) {
		seen = append(seen, r.Count)
		b.append(t, "late")
		b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp() WHERE dead_at IS NULL`) // a worker kills them all again
	}}
	dry := c
	dry.DryRun = true
	if r, err := b.op.Requeue(t.Context(), dry); err != nil || r.Count != 1203 {
		t.Fatalf("dry run: %+v, %v", r, err)
	}
	if n := len(b.audits(t)); n != 0 || one[int](t, b, `SELECT count(*) FROM outbox WHERE generation > 0`) != 0 {
		t.Fatal("the dry run changed something")
	}
	r, err := b.op.Requeue(t.Context(), c)
	if err != nil || r.Count != 1203 || r.Gone != 0 || !slices.Equal(seen, []int64{500, 1000, 1203}) {
		t.Fatalf("%+v, %v, progress %v", r, err, seen)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox WHERE stream_id <> 'late' AND generation = 1`); n != 1203 {
		t.Errorf("%d of 1203 are of generation 1", n)
	}
	if n := len(b.audits(t)); n != 3 {
		t.Errorf("%d rows of audit, want 3", n)
	}
	if n := one[int](t, b, `SELECT sum((details ->> 'count')::int) FROM outbox_audit`); n != 1203 {
		t.Errorf("the audit counts %d", n)
	}
}

// A limit takes the first ones of each partition's order, counts as many, and says so in the audit.
func TestALimitTakesTheFirstOnes(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.appendMany(t, 700)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 1, last_error = 'e'`)
	c := ops.Command{Actor: "ann", Selection: ops.Selection{All: true}, Most: 600, DryRun: true}
	r, err := b.op.Requeue(t.Context(), c)
	if err != nil || r != (ops.Changed{Count: 600}) {
		t.Fatalf("dry run: %+v, %v", r, err)
	}
	c.DryRun, c.Expected = false, new(r.Count)
	if r, err = b.op.Requeue(t.Context(), c); err != nil || r.Count != 600 {
		t.Fatalf("%+v, %v", r, err)
	}
	if lowest := one[int64](t, b, `SELECT min(global_sequence) FROM outbox WHERE dead_at IS NOT NULL`); lowest != 601 {
		t.Errorf("the first dead one is %d, want 601", lowest)
	}
	for _, a := range b.audits(t) {
		if !strings.Contains(sorted(t, a.Target), `"limit":600`) {
			t.Errorf("target %s", a.Target)
		}
	}
	c.Expected, c.Selection = nil, ops.Selection{Sequences: []int64{601, 602, 603}}
	c.Most = 2
	if r, err = b.op.Requeue(t.Context(), c); err != nil || r.Count != 2 {
		t.Errorf("of named ones: %+v, %v", r, err)
	}
	c.Most = -1
	if _, err = b.op.Requeue(t.Context(), c); err == nil {
		t.Error("a limit below 0 is taken")
	}
}
