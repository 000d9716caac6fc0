package source

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// Behind a clock that stepped back, as that of a standby, the history by the second begins anew, and does not wait for its old end.
func TestSecondsGoOnBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, server.URL())
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	var r recentReader
	for _, ahead := range []time.Duration{0, -time.Hour} {
		clock.Move(t, ahead)
		if _, err := pool.Exec(t.Context(), `INSERT INTO outbox_deliveries (lease_epoch, first_sequence, last_sequence, message_count, partition_key, published_at)
			SELECT 1, n, n, 1, 0, clock_timestamp() - n * interval '1 second' FROM generate_series(1, 9) AS n`); err != nil {
			t.Fatal(err)
		}
		shown, err := r.look(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		var published int64
		for _, one := range shown.seconds {
			published += one.Published
		}
		if published < 8 { // the last second is not whole
			t.Errorf("the clock is %v ahead: of 9 messages of the last ten seconds %d are shown, in %d seconds", ahead, published, len(shown.seconds))
		}
	}
}
