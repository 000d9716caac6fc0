package heartbeat_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A heartbeat that expires later than one can is watched: a member that beats no more is none after the time that one
// beat counts, by the watcher's own clock.
func TestADeadMemberIsWatchedBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	store, err := heartbeat.NewStore(pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	const ttl = time.Second
	dead := heartbeat.Worker{ID: uuid.Must(uuid.NewV7()), State: heartbeat.Active}
	alive := heartbeat.Worker{ID: uuid.Must(uuid.NewV7()), State: heartbeat.Active}
	if err := store.Beat(t.Context(), dead, ttl); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE outbox_workers SET heartbeat_until = heartbeat_until + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for polled := time.NewTicker(ttl / 5); ; <-polled.C {
		if err := store.Beat(t.Context(), alive, ttl); err != nil {
			t.Fatal(err)
		}
		snap, err := store.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !snap.Workers[0].Ahead || snap.Workers[1].Ahead {
			t.Fatalf("only the first expires later than one can: %+v", snap.Workers)
		}
		if members := snap.Members(); len(members) == 1 && members[0] == alive.ID {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the dead one stays a member")
		}
	}
	if waited := time.Since(began); waited < ttl {
		t.Errorf("it is no member after %v, though a beat counts for %v", waited, ttl)
	}
}
