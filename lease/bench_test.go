package lease_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// BenchmarkStore is what the statements cost on 10,000 partitions, for the prices of the coordinators' simulation.
func BenchmarkStore(b *testing.B) {
	const partitions, share = 10_000, 50
	store, err := lease.NewStore(b.Context(), pgtest.Pool(b, pgtest.Migrated(b, partitions)), "public")
	if err != nil {
		b.Fatal(err)
	}
	owner := uuid.Must(uuid.NewV7())
	ids := make([]partition.ID, share)
	for i := range ids {
		ids[i] = partition.ID(i * partitions / share)
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			if s, err := store.Snapshot(b.Context()); err != nil || len(s.Rows) != partitions {
				b.Fatal(len(s.Rows), err)
			}
		}
	})
	held, err := store.Acquire(b.Context(), owner, time.Hour, ids)
	if err != nil || len(held) != share {
		b.Fatal(len(held), err)
	}
	b.Run("renew", func(b *testing.B) {
		for b.Loop() {
			if renewed, _, err := store.Renew(b.Context(), owner, time.Hour, time.Second, held); err != nil || len(renewed) != share {
				b.Fatal(len(renewed), err)
			}
		}
	})
	b.Run("release and acquire", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Release(b.Context(), owner, held); err != nil {
				b.Fatal(err)
			}
			if held, err = store.Acquire(b.Context(), owner, time.Hour, ids); err != nil || len(held) != share {
				b.Fatal(len(held), err)
			}
		}
	})
}
