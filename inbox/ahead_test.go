package inbox_test

import (
	"testing"
	"time"
)

// A broker's clock may have been ahead when it gave a position its time, and be right since: what the restored stream was given meanwhile
// lies before that time.
func TestABrokerWhoseClockWasAheadWasRestored(t *testing.T) {
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
	// The message that was read there is not there any more. Its time, less the margin of a minute, has come.
	if _, err := r.pool.Exec(t.Context(), `UPDATE inbox_lanes SET position = 8, position_time = $1`, time.Now().Add(time.Minute).UnixNano()); err != nil {
		t.Fatal(err)
	}
	end = r.run(t, quick(), apply)
	defer end()
	waitFor(t, r.pool, `SELECT count(*) = 10 FROM effects`)
}
