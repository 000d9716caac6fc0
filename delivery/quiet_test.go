package delivery_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
)

// Whatever is committed moves the position.
func TestACommitMovesThePosition(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	at := func() string {
		position, err := b.store.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return position
	}
	before := at()
	for _, change := range []string{
		`SELECT outbox_append('s', 't', '1')`,
		`UPDATE outbox SET available_at = clock_timestamp()`,
		`UPDATE outbox_partitions SET paused_at = NULL`,
		`DELETE FROM outbox`,
	} {
		b.exec(t, change)
		if after := at(); after == before {
			t.Errorf("%s: the log stands at %s as before", change, after)
		} else {
			before = after
		}
	}
	b.pool.Close()
	if _, err := b.store.Position(t.Context()); err == nil {
		t.Error("a position without a database")
	}
}

// A relay in silence, whose polls find that nothing was committed, delivers what comes without a ring.
func TestSilenceEndsWithACommit(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.acquireAll(t, b.keeper)
	b.start(t, b.relay(t, delivery.Config{PollInterval: time.Millisecond}))
	for range 20 {
		b.append(t, "s", `1`)
		b.until(t, `SELECT count(*) FROM outbox`, 0)
	}
}
