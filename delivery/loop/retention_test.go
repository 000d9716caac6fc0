package loop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
)

func TestTheSweeperDeletesOnlyWhatIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`, "dedupe_key => 'old'")
	b.append(t, "s", `2`, "dedupe_key => 'new'")
	b.acquireAll(t, b.keeper)
	b.drain(t, b.relay(t, loop.Config{BatchSize: 1, Window: 1}))
	waiting := b.append(t, "s", `3`)
	b.exec(t, `UPDATE outbox_deliveries SET published_at = published_at - interval '8 days' WHERE first_sequence = 1`)
	b.exec(t, `UPDATE outbox_dedupe_keys SET created_at = created_at - interval '8 days' WHERE dedupe_key = 'old'`)
	b.exec(t, `INSERT INTO outbox_throughput (minute, partition_key, published) SELECT now() - n * interval '1 day', 0, 1 FROM generate_series(1, 9) AS n`)
	b.exec(t, `TRUNCATE outbox_ownership`)
	b.exec(t, `INSERT INTO outbox_ownership (kind, partition_keys, lease_epochs) SELECT 'taken', '{0}', ARRAY[n] FROM generate_series(1, 12) AS n`)
	b.exec(t, `UPDATE outbox SET available_at = available_at - interval '1 year'`)
	s, err := pgstore.NewSweeper(b.store, b.pool, pgstore.RetentionConfig{History: 7 * 24 * time.Hour, Ownership: 5, Chunk: 2})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := s.Sweep(t.Context())
	if err != nil || deleted != 1+1+8+7 {
		t.Errorf("deleted %d rows, want 1 delivery, 1 key, 8 minutes and 7 changes of ownership: %v", deleted, err)
	}
	b.until(t, `SELECT (count(*) = 5 AND min(lease_epochs[1]) = 8)::int FROM outbox_ownership`, 1)
	b.until(t, `SELECT count(*) FROM outbox_deliveries`, 1)
	b.until(t, `SELECT count(*) FROM outbox_dedupe_keys WHERE dedupe_key = 'new'`, 1)
	if got := b.state(t, waiting); got.State != "pending" {
		t.Errorf("a waiting row: %+v", got)
	}
	if _, err := pgstore.NewSweeper(b.store, b.pool, pgstore.RetentionConfig{History: -1}); !errors.Is(err, delivery.ErrConfig) {
		t.Errorf("a negative retention: %v", err)
	}
}
