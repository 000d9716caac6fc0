package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// failing fails for one version of stream s, as often as *times says; -1: always.
func failing(version int64, times *int, err error) inbox.Handler {
	return func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		result, failed := apply(ctx, tx, m) // its effect must be undone
		if m.Stream == "s" && m.Version == version && *times != 0 {
			*times--
			return nil, err
		}
		return result, failed
	}
}

func (b *bundle) retryUntil(t testing.TB, handle inbox.Handler, sql string) {
	t.Helper()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		if _, err := b.box.RetryDue(t.Context(), 100, handle); err != nil {
			t.Fatal(err)
		}
		var done bool
		if err := b.pool.QueryRow(t.Context(), sql).Scan(&done); err != nil {
			t.Fatal(err)
		}
		if done {
			return
		}
	}
}

const (
	nothingParked = `SELECT NOT EXISTS (SELECT FROM inbox_parked)`
	oneDead       = `SELECT EXISTS (SELECT FROM inbox_parked WHERE state = 'dead')`
)

func TestAFailedMessageHoldsItsStreamAlone(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	times := 3
	handle := failing(2, &times, errors.New("not yet"))
	for v := range int64(4) {
		b.process(t, event("s", v+1), handle)
		b.process(t, event("other", v+1), handle)
	}
	if got := b.effects(t, "other"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("the other stream's effects are %v", got)
	}
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1}) {
		t.Errorf("effects are %v before the retry", got)
	}
	b.retryUntil(t, handle, nothingParked)
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("effects are %v", got)
	}
	// The stream goes on by itself.
	if o := b.process(t, event("s", 5), handle); o.Status != inbox.Applied || o.Findings != 0 {
		t.Errorf("the next message is %s %s", o.Status, o.Findings)
	}
	if o := b.process(t, event("s", 3), handle); o.Status != inbox.Repeat || string(o.Result) != "result 3" {
		t.Errorf("a copy of a retried message is %s with %q", o.Status, o.Result)
	}
}

func TestDeadMessagesWaitForAPerson(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *inbox.Config) { c.MaxAttempts = 3 })
	always := -1
	broken := failing(2, &always, errors.New("broken\x00 \xff"))
	for v := range int64(4) {
		b.process(t, event("s", v+1), broken)
	}
	b.retryUntil(t, broken, oneDead)
	dead, err := b.box.Dead(t.Context(), 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 3 || dead[0].Version != 2 ||
		dead[0].Reason != "broken \uFFFD" || string(dead[0].Payload) != "{}" {
		t.Fatalf("dead are %+v, %v", dead, err)
	}
	if waiting, err := b.box.Parked(t.Context(), inbox.ParkedQuery{State: inbox.Waiting, Stream: "s"}); err != nil || len(waiting) != 2 {
		t.Errorf("%d wait, %v", len(waiting), err)
	}
	if n, err := b.box.RetryDue(t.Context(), 10, apply); n != 0 || err != nil {
		t.Errorf("%d were tried, %v", n, err)
	}
	if n, err := b.box.Requeue(t.Context(), uuid.New()); n != 0 || err != nil {
		t.Errorf("%d unknown ones requeued, %v", n, err)
	}
	if n, err := b.box.Requeue(t.Context(), dead[0].EventID); n != 1 || err != nil {
		t.Errorf("%d requeued, %v", n, err)
	}
	b.retryUntil(t, apply, nothingParked)
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("effects are %v", got)
	}
}

func TestSkippingADeadMessage(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	always := -1
	broken := failing(2, &always, inbox.Final(errors.New("broken")))
	for v := range int64(3) {
		b.process(t, event("s", v+1), broken)
	}
	if err := b.box.Skip(t.Context(), event("s", 3).EventID, "not dead"); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("skipping what waits gives %v", err)
	}
	if err := b.box.Skip(t.Context(), event("s", 2).EventID, "of no use"); err != nil {
		t.Fatal(err)
	}
	b.retryUntil(t, broken, nothingParked)
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("effects are %v", got)
	}
	if o := b.process(t, event("s", 2), apply); o.Status != inbox.Repeat {
		t.Errorf("a copy of the skipped one is %s", o.Status)
	}
}

func TestAConflictIsSettledByForgetting(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.process(t, event("s", 1), apply)
	b.process(t, event("s", 2), apply)
	other := changed(event("s", 2), func(m *message.Message) { m.EventID = uuid.New() })
	if o := b.process(t, other, apply); o.Status != inbox.Dead || !o.Findings.Has(inbox.Conflict) {
		t.Fatalf("it is %s %s", o.Status, o.Findings)
	}
	if o := b.process(t, event("s", 3), apply); o.Status != inbox.Waiting {
		t.Errorf("its successor is %s", o.Status)
	}
	// Requeued alone it is a conflict still.
	if _, err := b.box.Requeue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.retryUntil(t, apply, oneDead)
	if err := b.box.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.box.Requeue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.retryUntil(t, apply, nothingParked)
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 2, 3}) {
		t.Errorf("effects are %v", got)
	}
	if err := b.box.Forget(t.Context(), "unknown"); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("forgetting an unknown stream gives %v", err)
	}
}

func TestALateMessagePassesTheParkedOnes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	times := 1
	b.process(t, event("s", 1), apply)
	b.process(t, event("s", 3), failing(3, &times, inbox.Final(errors.New("broken"))))
	if o := b.process(t, event("s", 2), apply); o.Status != inbox.Waiting {
		t.Errorf("the late one is %s", o.Status)
	}
	b.retryUntil(t, apply, `SELECT count(*) = 1 FROM inbox_parked`)
	if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("effects are %v", got)
	}
}

func TestOutagesCountNoAttempts(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	cut := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if _, err := b.pool.Exec(ctx, `SELECT pg_terminate_backend($1)`, tx.Conn().PgConn().PID()); err != nil {
			return nil, err
		}
		return apply(ctx, tx, m)
	}
	if _, err := b.box.Process(t.Context(), event("s", 1), cut); err == nil {
		t.Error("a lost session is no error")
	}
	var parked, known int
	err := b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM inbox_parked), (SELECT count(*) FROM inbox_records)`).
		Scan(&parked, &known)
	if err != nil || parked != 0 || known != 0 {
		t.Errorf("%d parked, %d recorded, %v", parked, known, err)
	}
	if o := b.process(t, event("s", 1), apply); o.Status != inbox.Applied {
		t.Errorf("when it comes again it is %s", o.Status)
	}
}

func TestAHandlerHasSoMuchTime(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *inbox.Config) { c.HandlerTimeout = 100 * time.Millisecond })
	for n, passes := range []bool{false, true} { // the error on, or over it
		o := b.process(t, event(fmt.Sprint("s", n), 1), func(ctx context.Context, tx pgx.Tx, _ message.Message) ([]byte, error) {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			if passes {
				err = nil
			}
			return nil, err
		})
		if o.Status != inbox.Failed || !errors.Is(o.Err, context.DeadlineExceeded) {
			t.Errorf("passes over it %t: it is %s: %v", passes, o.Status, o.Err)
		}
	}
}

func TestRecordsArePurged(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for v := range int64(3) {
		b.process(t, event("s", v+1), apply)
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE inbox_records SET recorded_at = recorded_at - interval '8 days' WHERE version < 3`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.box.Purge(t.Context()); n != 2 || err != nil {
		t.Errorf("%d purged, %v", n, err)
	}
	if o := b.process(t, event("s", 3), apply); o.Status != inbox.Repeat || string(o.Result) != "result 3" {
		t.Errorf("a young one's copy is %s %q", o.Status, o.Result)
	}
}
