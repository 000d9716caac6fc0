package delivery_test

import (
	"context"
	"testing"

	"github.com/postrider/postrider/delivery"
)

// What a claim read of an asynchronous commit is durable when the events come, and
// was not before: the server's own writer may have been quicker, so it is tried
// until that was seen several times.
func TestRehydrationMakesDurableWhatWasRead(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	producer, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Release()
	if _, err := producer.Exec(ctx, `SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	defer producer.Exec(context.Background(), `RESET synchronous_commit`) //nolint:errcheck // the database is dropped
	var position string
	flushed := func() (yes bool) {
		t.Helper()
		if err := b.pool.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn`, position).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	for seen := 0; seen < 5; {
		var sequence int64
		if err := producer.QueryRow(ctx, `SELECT outbox_append('s', 't', '1')`).Scan(&sequence); err != nil {
			t.Fatal(err)
		}
		if err := producer.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&position); err != nil {
			t.Fatal(err)
		}
		found, err := b.store.Claim(ctx, []delivery.Ask{{Lease: b.keeper.Set().Held()[0], Most: 1}},
			delivery.Limits{Total: 1, UpTo: sequence}, delivery.FailurePolicy{})
		if err != nil {
			t.Fatal(err)
		}
		before := flushed()
		_, _, err = b.store.Rehydrate(ctx, found, []int64{sequence}, 1<<20, 1<<20)
		found.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !flushed() {
			t.Fatalf("what was read of sequence %d is not durable", sequence)
		}
		if !before {
			seen++
		}
	}
}
