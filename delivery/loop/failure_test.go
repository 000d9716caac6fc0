package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
)

// An event that cannot be found fails by its own fault: its stream waits, its
// neighbours flow, and when the event is there everything comes in order.
func TestAMissingEventHoldsUpOnlyItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	first := b.append(t, "broken", `1`)
	second := b.append(t, "broken", `2`)
	neighbour := b.append(t, "fine", `1`)
	hide(t, b, first)
	b.acquireAll(t, b.keeper)
	// The second attempt is due at once.
	r := b.relay(t, loop.Config{Retry: delivery.RetryPolicy{Base: 1, Factor: 1, Max: 1, Jitter: delivery.JitterNone, MaxAttempts: 0}})
	stop := b.start(t, r)
	b.until(t, `SELECT count(*) FROM outbox WHERE attempts >= 2 AND parked`, 1)
	b.until(t, `SELECT count(*) FROM outbox WHERE blocked`, 1)
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	if s := b.state(t, first); s.State != "failed" || !strings.Contains(*s.LastError, "event not found") {
		t.Errorf("the missing one: %+v", s)
	}
	if s := b.state(t, second); s.State != "blocked" || s.Attempts != 0 {
		t.Errorf("the one behind it: %+v", s)
	}
	if s := b.state(t, neighbour); s.State != "published" {
		t.Errorf("the neighbour: %+v", s)
	}
	third := b.append(t, "broken", `3`) // arrives while the stream is blocked
	b.until(t, `SELECT count(*) FROM outbox WHERE blocked`, 2)
	show(t, b, first)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	stop()
	if got, want := sequencesOf(b.stored(t), "broken"), texts(first, second, third); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	if s := b.state(t, first); s.Attempts < 2 {
		t.Errorf("the history forgot the attempts: %+v", s)
	}
	b.until(t, `SELECT (sum(failed) >= 2 AND sum(retried) = 1)::int FROM outbox_throughput`, 1)
}

// hide moves an event out of the relation, show brings it back.
func hide(t *testing.T, b *bundle, sequence int64) {
	t.Helper()
	b.exec(t, `CREATE TABLE hidden AS SELECT * FROM events WHERE sequence = $1`, sequence)
	b.exec(t, `DELETE FROM events WHERE sequence = $1`, sequence)
}

func show(t *testing.T, b *bundle, sequence int64) {
	t.Helper()
	b.exec(t, `INSERT INTO events OVERRIDING SYSTEM VALUE SELECT * FROM hidden WHERE sequence = $1`, sequence)
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	// The simple protocol lets DDL take its value as a literal.
	if strings.HasPrefix(sql, "CREATE") && len(args) > 0 {
		sql = strings.ReplaceAll(sql, "$1", fmt.Sprint(args[0]))
		args = nil
	}
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// A message that the server can never take is dead at once; its stream waits
// for a person, its neighbours flow.
func TestAnOversizedPayloadIsDeadAndHarmsOnlyItsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	large := b.append(t, "s", `"`+strings.Repeat("x", 2<<20)+`"`)
	behind := b.append(t, "s", `1`)
	neighbour := b.append(t, "fine", `1`)
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{}))
	if s := b.state(t, large); s.State != "dead" || !strings.Contains(*s.LastError, "max_payload") {
		t.Errorf("the large one: %+v", s)
	}
	if s := b.state(t, behind); s.State != "blocked" {
		t.Errorf("the one behind it: %+v", s)
	}
	if s := b.state(t, neighbour); s.State != "published" {
		t.Errorf("the neighbour: %+v", s)
	}
}

// A payload above the relay's own limit is never read into memory.
func TestAPayloadAboveTheReadLimitIsNotRead(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	large := b.append(t, "s", `"`+strings.Repeat("x", 4096)+`"`)
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{MaxPayload: 1024}))
	if s := b.state(t, large); s.State != "dead" || !strings.Contains(*s.LastError, "reads at most 1024") {
		t.Errorf("state %+v", s)
	}
}

// Batches are cut where the payloads exceed the window; everything still comes.
func TestLargePayloadsAreCutIntoSmallBatches(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	var want []string
	for range 12 {
		want = append(want, texts(b.append(t, "s", `"`+strings.Repeat("x", 300<<10)+`"`))...)
		b.append(t, "other", `1`)
	}
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{WindowBytes: 1 << 20}))
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
}

// While the broker is away no attempt is counted, nothing dies, and delivery
// goes on by itself.
func TestAnOutageCostsNoAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	cluster := b.server.Cluster(t)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{Retry: delivery.RetryPolicy{Base: 1, Factor: 1, Max: 1, Jitter: delivery.JitterNone, MaxAttempts: 1}})
	b.start(t, r)
	before := b.append(t, "s", `1`)
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if err := cluster.StopNode(0); err != nil {
		t.Fatal(err)
	}
	during := b.append(t, "s", `2`)
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for r.Stats().PausedFor == 0 { // until the relay has noticed
		if patient.Err() != nil {
			t.Fatal("the relay noticed no outage")
		}
	}
	b.until(t, `SELECT count(*) FROM outbox WHERE attempts = 0 AND NOT parked AND last_error IS NULL`, 1)
	if err := cluster.RestartNode(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if got, want := sequencesOf(b.stored(t), "s"), texts(before, during); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	if s := r.Stats(); s.Failed != 0 || s.Dead != 0 {
		t.Errorf("the outage was counted: %+v", s)
	}
}

func TestAuditOnlyEventsAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	silent := b.append(t, "s", `1`, "publish => false")
	loud := b.append(t, "s", `2`)
	// Somebody else's trigger may enqueue every event, audit-only or not.
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES ($1, 0, 's')`, silent)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, texts(loud)) {
		t.Errorf("stored %v, want only %d", got, loud)
	}
	if s := b.state(t, silent); s.State != "skipped" {
		t.Errorf("state %+v", s)
	}
	if s := r.Stats(); s.Skipped != 1 || s.Published != 1 {
		t.Errorf("stats %+v", s)
	}
	b.until(t, `SELECT sum(skipped) FROM outbox_throughput`, 1)
}

// An event for later waits, and so does everything behind it in its stream.
func TestAScheduledEventWaitsAndKeepsItsStreamsOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	later := b.append(t, "s", `1`, "available_at => clock_timestamp() + interval '1 hour'")
	behind := b.append(t, "s", `2`)
	byHand := b.append(t, "hand", `3`)
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() + interval '1 hour', scheduled_for = clock_timestamp() WHERE global_sequence = $1`, byHand)
	neighbour := b.append(t, "fine", `4`)
	b.acquireAll(t, b.keeper)
	r := b.relay(t, loop.Config{})
	b.drain(t, r)
	for sequence, want := range map[int64]string{later: "scheduled", behind: "blocked", byHand: "scheduled", neighbour: "published"} {
		if s := b.state(t, sequence); s.State != want || s.Attempts != 0 {
			t.Errorf("event %d: %+v, want %s", sequence, s, want)
		}
	}
	b.until(t, `SELECT count(*) FROM outbox WHERE parked`, 3)
	b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() WHERE NOT blocked`)
	b.start(t, r2(t, b))
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, texts(later, behind)) {
		t.Errorf("stored %v, want %d before %d", got, later, behind)
	}
}

// r2 is a relay that polls quickly.
func r2(t *testing.T, b *bundle) *loop.Relay {
	t.Helper()
	return b.relay(t, loop.Config{PollInterval: 5 * time.Millisecond})
}
