package inbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/inbox"
)

// Sequences that stand behind their tables, as a dump or replication leave them, lose nothing: what they refuse comes again, and the error
// has the cure.
func TestASequenceBehindItsTable(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	failed := errors.New("not yet")
	times := -1
	handle := failing(1, &times, failed)
	for _, stream := range []string{"a", "b"} {
		b.process(t, event(stream, 1), handle)
	}
	b.process(t, event("s", 1), handle)
	b.exec(t, `ALTER SEQUENCE inbox_streams_stream_key_seq RESTART; ALTER SEQUENCE inbox_parked_parked_id_seq RESTART`)
	for _, version := range []int64{1, 2} { // a new stream, and what waits behind a failure
		stream := map[int64]string{1: "new", 2: "s"}[version]
		_, err := b.box.Process(t.Context(), event(stream, version), handle)
		if err == nil || !strings.Contains(err.Error(), "SELECT setval(") {
			t.Fatalf("event %d of %s gives %v, want an error with its cure", version, stream, err)
		}
		_, cure, _ := strings.Cut(err.Error(), "leave it: ")
		cure, _, _ = strings.Cut(cure, ": ERROR")
		b.exec(t, cure)
		b.process(t, event(stream, version), handle)
	}
	times = 0
	if _, err := b.box.RetryDue(t.Context(), 100, handle); err != nil {
		t.Fatal(err)
	}
	b.retryUntil(t, handle, nothingParked)
	if got := b.effects(t, "s"); len(got) != 2 {
		t.Errorf("effects are %v, want 1 and 2", got)
	}
}

// A broker that was restored may have a clock that is behind the one which gave a position its time.
func TestABrokerThatWasRestoredWithAClockBehind(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	for version := range int64(5) {
		r.publish(t, event("s", version+1))
	}
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 5 FROM effects`)
	waitFor(t, r.pool, `SELECT min(position) >= 5 FROM inbox_lanes`)
	end()
	for version := range int64(5) {
		r.publish(t, event("s", version+6))
	}
	r.exec(t, `UPDATE inbox_lanes SET position = 12, position_time = position_time + 3600000000000`) // of a message that was lost
	end = r.run(t, quick(), apply)
	defer end()
	waitFor(t, r.pool, `SELECT count(*) = 10 FROM effects`)
}

// No age is below zero where the database's clock has stepped back.
func TestAgesBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	times := -1
	r.publish(t, event("s", 1))
	end := r.run(t, quick(), failing(1, &times, inbox.Final(errors.New("no"))))
	waitFor(t, r.pool, oneDead)
	end()
	r.exec(t, `UPDATE inbox_parked SET parked_at = clock_timestamp() + interval '1 hour'`)
	end = r.run(t, quick(), apply)
	defer end()
	r.waitMetric(t, "inbox_parked", 1)
	if age := r.metric(t, "inbox_oldest_parked_age_seconds"); age < 0 {
		t.Errorf("the oldest message is %v s old", age)
	}
}
