package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops"
)

const inAnHour = `available_at => clock_timestamp() + interval '1 hour'`

func scheduled(sequences ...int64) ops.Command {
	c := command(sequences...)
	c.Selection.State = ops.Scheduled
	return c
}

// What waits for its time is a state of its own, in the view, in lists and of one message.
func TestScheduledIsAState(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	waits, pending := b.append(t, "s", inAnHour), b.append(t, "t")
	failed := b.append(t, "u")
	b.fail(t, "no", failed)
	b.wantQueue(t, "s", at(waits, "scheduled"))
	b.wantQueue(t, "t", at(pending, "pending"))
	b.wantQueue(t, "u", at(failed, "failed"))
	for state, want := range map[ops.State]int64{ops.Scheduled: waits, ops.Pending: pending, ops.Failed: failed} {
		l, err := b.op.List(t.Context(), ops.Filter{States: []ops.State{state}}, ops.Page{Within: time.Minute})
		if err != nil || len(l.Messages) != 1 || l.Messages[0].Sequence != want || l.Messages[0].State != state {
			t.Errorf("%s: %+v, %v", state, l.Messages, err)
		}
		if d, err := b.op.Show(t.Context(), want); err != nil || d.State != state {
			t.Errorf("message %d is %s, %v", want, d.State, err)
		}
	}
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() WHERE global_sequence = $1`, waits)
	b.wantQueue(t, "s", at(waits, "pending"))
}

// A cancelled message is discarded, and what waits behind it goes on.
func TestCancelSettlesWhatWaitsForItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first, second, third := b.append(t, "s", inAnHour), b.append(t, "s", inAnHour), b.append(t, "s")
	b.block(t, third)
	pending, other := b.append(t, "t"), b.append(t, "u", inAnHour)

	if r, err := b.op.Cancel(t.Context(), scheduled(pending)); err == nil || !strings.Contains(err.Error(), "is pending, not scheduled") {
		t.Errorf("of a pending one: %+v, %v", r, err)
	}
	if _, err := b.op.Discard(t.Context(), scheduled(first)); err == nil {
		t.Error("a scheduled message was discarded as if it were dead")
	}
	unsaid := scheduled(first)
	unsaid.Reason = ""
	if _, err := b.op.Cancel(t.Context(), unsaid); err == nil {
		t.Error("no reason was asked for")
	}
	r, err := b.op.Cancel(t.Context(), scheduled(first))
	if err != nil || r != (ops.Changed{Count: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(second, "scheduled"), at(third, "blocked"))
	if d, err := b.op.Show(t.Context(), first); err != nil || d.State != ops.Discarded || d.Actions[0].Action != "scheduled.cancel" {
		t.Errorf("the first is %+v, %v", d, err)
	}
	c := ops.Command{Selection: ops.Selection{State: ops.Scheduled, Filter: ops.Filter{Stream: "s"}}, Actor: "ann", Reason: "no more"}
	if r, err := b.op.Cancel(t.Context(), c); err != nil || r.Count != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(third, "pending"))
	b.wantQueue(t, "u", at(other, "scheduled"))
	audits := b.audits(t)
	if len(audits) != 2 || audits[1].Action != "scheduled.cancel" || !strings.Contains(string(audits[1].Details), `"available_at": "20`) {
		t.Errorf("the audit says %s", audits[1].Details)
	}
	w := b.worker(t)
	if batch := w.claim(t, 2); batch.Messages[0].Sequence != third || batch.Messages[0].Blocked {
		t.Errorf("claimed %+v", batch.Messages)
	}
}

// A moved message is due when it was moved to, and keeps its place in its stream.
func TestMoveChangesTheTime(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	first, second := b.append(t, "s", inAnHour), b.append(t, "s")
	b.block(t, second)
	to := time.Now().Add(24 * time.Hour).Truncate(time.Microsecond)
	c := scheduled(first)
	c.Reason = ""
	if r, err := b.op.Move(t.Context(), c, to); err != nil || r.Count != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if d, err := b.op.Show(t.Context(), first); err != nil || d.State != ops.Scheduled || !d.AvailableAt.Equal(to) {
		t.Errorf("it is %+v, %v", d.Message, err)
	}
	if !one[bool](t, b, `SELECT scheduled_for = $1 FROM outbox WHERE global_sequence = $2`, to, first) {
		t.Error("its latency counts from another time")
	}
	if a := b.audits(t); len(a) != 1 || a[0].Action != "scheduled.move" || !strings.Contains(string(a[0].Details), `"to": "`+to.Format("2006-01-02")) {
		t.Errorf("audit %+v", a)
	}
	if r, err := b.op.Move(t.Context(), c, time.Now().Add(-time.Hour)); err != nil || r.Count != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(first, "pending"), at(second, "blocked"))
	w := b.worker(t)
	if batch := w.claim(t, 2); batch.Messages[0].Sequence != first || batch.Messages[1].Sequence != second {
		t.Errorf("claimed %+v", batch.Messages)
	}
	if _, err := b.op.Move(t.Context(), c, time.Time{}); err == nil {
		t.Error("no time was asked for")
	}
}

// What a worker began with is not taken from under it: the time came before the message
// was out of reach.
func TestWhatIsOnItsWayIsNotCancelled(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*bundle, ops.Command) (ops.Changed, error){
		"cancel": func(b *bundle, c ops.Command) (ops.Changed, error) { return b.op.Cancel(t.Context(), c) },
		"move": func(b *bundle, c ops.Command) (ops.Changed, error) {
			return b.op.Move(t.Context(), c, time.Now().Add(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			w := b.worker(t)
			// Commits of the outbox wait, as for a slow disk, while the lock is held.
			b.exec(t, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'`)
			b.exec(t, `CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON outbox_parked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
			disk, err := b.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Release()
			if _, err := disk.Exec(t.Context(), `SELECT pg_advisory_lock(1)`); err != nil {
				t.Fatal(err)
			}
			message := b.append(t, "s", `available_at => clock_timestamp() + interval '2 seconds'`)
			type outcome struct {
				r   ops.Changed
				err error
			}
			ended := make(chan outcome, 1)
			go func() {
				r, err := do(b, scheduled(message))
				ended <- outcome{r, err}
			}()
			waits(t, b)
			b.exec(t, `SELECT pg_sleep(greatest(0, extract(epoch FROM available_at - clock_timestamp()))) FROM outbox`)
			batch := w.claim(t, 1)
			if _, err := disk.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`); err != nil {
				t.Fatal(err)
			}
			if o := <-ended; o.err != nil || o.r != (ops.Changed{Gone: 1}) {
				t.Errorf("%+v", o)
			}
			w.mark(t, batch, delivery.Outcome{Kind: delivery.Published, StreamSequence: 5})
			if state := one[string](t, b, `SELECT state FROM outbox_messages`); state != "published" {
				t.Errorf("it is %s", state)
			}
			if a := b.audits(t); len(a) != 0 {
				t.Errorf("audit %+v", a)
			}
		})
	}
}

// What an interrupted command left held is still scheduled, and can be cancelled or moved; but for what a worker may have begun with.
func TestHeldMessagesCanBeTakenAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	var sequences []int64
	for i := range 4 {
		sequences = append(sequences, b.append(t, fmt.Sprint("s-", i), inAnHour))
	}
	begun := b.append(t, "s", inAnHour)
	b.exec(t, `UPDATE outbox SET available_at = available_at + interval '5 minutes'`)
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() + interval '5 minutes', scheduled_for = clock_timestamp() WHERE global_sequence = $1`, begun)
	if r, err := b.op.Cancel(t.Context(), scheduled(begun)); err != nil || r != (ops.Changed{Gone: 1}) {
		t.Errorf("of what was due when it was held: %+v, %v", r, err)
	}
	b.wantQueue(t, "s", at(begun, "pending"))
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = $1`, begun)
	if r, err := b.op.Move(t.Context(), scheduled(sequences[0]), time.Now().Add(time.Minute)); err != nil || r.Count != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	all := ops.Command{Selection: ops.Selection{State: ops.Scheduled, All: true}, Actor: "ann", Reason: "all"}
	if r, err := b.op.Cancel(t.Context(), all); err != nil || r.Count != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("%d are left", n)
	}
}
