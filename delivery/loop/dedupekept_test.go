package loop_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
)

// While an event waits, for its time or for a person, its dedupe key stays taken, however old it is.
func TestTheKeyOfAnEventThatWaitsStaysTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	put := func(stream, more string) (sequence int64, duplicate bool) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `SELECT sequence, duplicate FROM outbox_append_one($1, 't', '{}', dedupe_key => $1`+more+`)`, stream).Scan(&sequence, &duplicate); err != nil {
			t.Fatal(err)
		}
		return sequence, duplicate
	}
	scheduled, _ := put("scheduled", `, available_at => clock_timestamp() + interval '30 days'`)
	dead, _ := put("dead", ``)
	b.exec(t, `UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 8 WHERE global_sequence = $1`, dead)
	gone, _ := put("gone", ``)
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = $1`, gone)
	b.exec(t, `UPDATE outbox_dedupe_keys SET created_at = clock_timestamp() - interval '8 days'`)
	sweeper, err := pgstore.NewSweeper(b.store, b.pool, pgstore.RetentionConfig{History: 7 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sweeper.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]int64{"scheduled": scheduled, "dead": dead} {
		if got, duplicate := put(stream, ``); !duplicate || got != want {
			t.Errorf("the event of %s waits as %d, and is appended once more as %d", stream, want, got)
		}
	}
	if _, duplicate := put("gone", ``); duplicate {
		t.Error("a key stays taken for ever")
	}
}
