package loop_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
)

// What is appended to a stream while an earlier event of it waits for its next
// attempt, or for a person, is not published: the claim itself looks for that.
func TestNewEventsWaitBehindParkedOnes(t *testing.T) {
	t.Parallel()
	for _, order := range []delivery.Ordering{delivery.OrderPartition, delivery.OrderStream} {
		for name, waits := range map[string]string{
			"failed": `attempts = 1, available_at = clock_timestamp() + interval '1 minute'`,
			"dead":   `attempts = 1, dead_at = clock_timestamp()`,
		} {
			t.Run(string(order)+", "+name, func(t *testing.T) {
				t.Parallel()
				b := setup(t, 1)
				first := b.append(t, "s", `1`)
				b.exec(t, `UPDATE outbox SET parked = true, `+waits)
				second, neighbour := b.append(t, "s", `2`), b.append(t, "fine", `1`)
				b.acquireAll(t, b.keeper)
				b.drain(t, b.relay(t, loop.Config{Ordering: order}))
				for sequence, want := range map[int64]string{first: name, second: "blocked", neighbour: "published"} {
					if s := b.state(t, sequence); s.State != want {
						t.Errorf("event %d: %+v, want %s", sequence, s, want)
					}
				}
				b.exec(t, `UPDATE outbox SET available_at = clock_timestamp(), dead_at = NULL WHERE NOT blocked`)
				b.drain(t, b.relay(t, loop.Config{Ordering: order}))
				if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, texts(first, second)) {
					t.Errorf("stored %v, want %d before %d", got, first, second)
				}
			})
		}
	}
}

// Of a stream's parked rows those up to the first that is dead, or for later, are
// published, however due the ones behind it are.
func TestParkedRowsStopAtTheFirstThatCannotGo(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]string{
		"dead":      `dead_at = clock_timestamp()`,
		"scheduled": `available_at = clock_timestamp() + interval '1 hour', scheduled_for = clock_timestamp()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			first, second := b.append(t, "s", `1`), b.append(t, "s", `2`)
			b.append(t, "s", `3`)
			b.exec(t, `UPDATE outbox SET parked = true, blocked = global_sequence > $1`, first)
			b.exec(t, `UPDATE outbox SET `+stop+` WHERE global_sequence = $1`, second)
			b.acquireAll(t, b.keeper)
			b.drain(t, b.relay(t, loop.Config{}))
			if got := sequencesOf(b.stored(t), "s"); !slices.Equal(got, texts(first)) {
				t.Errorf("stored %v, want only %d", got, first)
			}
			b.until(t, `SELECT count(*) FROM outbox`, 2)
		})
	}
}
