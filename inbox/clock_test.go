package inbox_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
)

// The lanes of a reader that died while the database's clock stepped back are watched by the others' own clocks, and
// taken when nobody has renewed them for as long as a lease lasts.
func TestADeadReadersLanesAreWatchedBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	config := inbox.ConsumerConfig{Lanes: 4, LeaseTTL: time.Second, Interval: 200 * time.Millisecond}
	end := r.run(t, config, apply)
	waitFor(t, r.pool, `SELECT count(*) = 4 FROM inbox_lanes WHERE owner IS NOT NULL`)
	end()
	const dead = `'00000000-0000-7000-8000-000000000001'::uuid`
	for _, sql := range []string{
		`INSERT INTO inbox_readers (consumer, reader, hostname, pid, alive_until, alive_ttl)
		VALUES ('test', ` + dead + `, 'gone', 1, clock_timestamp() + interval '1 hour', interval '1 second')`,
		`UPDATE inbox_lanes SET owner = ` + dead + `, epoch = epoch + 1, lease_until = clock_timestamp() + interval '1 hour', lease_ttl = interval '1 second'`,
	} {
		if _, err := r.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	end = r.run(t, config, apply)
	waitFor(t, r.pool, `SELECT count(*) = 4 FROM inbox_lanes WHERE owner <> `+dead)
	if waited := time.Since(began); waited < config.LeaseTTL {
		t.Errorf("taken after %v, though a lease lasts %v", waited, config.LeaseTTL)
	}
	r.publish(t, event("s", 1))
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	end()
}

// What failed, and what leads its stream since, is tried although the clock has stepped back behind the time for it.
func TestRetriesNeedNoClock(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	times := 1
	handle := failing(1, &times, errors.New("not yet"))
	for v := range int64(3) {
		b.process(t, event("s", v+1), handle)
	}
	for _, left := range []int64{1, 2, 3} {
		if _, err := b.pool.Exec(t.Context(), `UPDATE inbox_parked SET due_at = clock_timestamp() + interval '1 hour' WHERE due_at IS NOT NULL`); err != nil {
			t.Fatal(err)
		}
		if _, err := b.box.RetryDue(t.Context(), 1, handle); err != nil {
			t.Fatal(err)
		}
		if got := b.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3}[:left]) {
			t.Errorf("effects are %v, want %d", got, left)
		}
	}
}
