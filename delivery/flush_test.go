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
	eachWay(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		b.asynchronously(t, func(sequence int64, flushed func() bool) (before bool) {
			found := b.claimOne(t, sequence, 0)
			before = flushed()
			_, _, err := b.store.Rehydrate(t.Context(), found, []int64{sequence}, 1<<20, 1<<20)
			found.Close()
			if err != nil {
				t.Fatal(err)
			}
			return before
		})
	})
}

// So it is when they come with the claim.
func TestAClaimWithEventsMakesDurableWhatWasRead(t *testing.T) {
	t.Parallel()
	eachWay(t, 1, func(t *testing.T, b *bundle) {
		t.Helper()
		b.asynchronously(t, func(sequence int64, flushed func() bool) (before bool) {
			before = flushed()
			found := b.claimOne(t, sequence, 1<<20)
			found.Close()
			return before
		})
	})
}

func (b *bundle) claimOne(t *testing.T, sequence, payload int64) delivery.Claim {
	t.Helper()
	found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: b.keeper.Set().Held()[0], Most: 1}},
		delivery.Limits{Total: 1, UpTo: sequence, Payload: payload}, delivery.BehindStream)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// asynchronously has events read that were committed asynchronously, which must be durable then. The reader
// tells whether each was so before.
func (b *bundle) asynchronously(t *testing.T, read func(sequence int64, flushed func() bool) (before bool)) {
	t.Helper()
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
		before := read(sequence, flushed)
		if !flushed() {
			t.Fatalf("what was read of sequence %d is not durable", sequence)
		}
		if !before {
			seen++
		}
	}
}
