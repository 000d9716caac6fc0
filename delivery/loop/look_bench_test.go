package loop_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// BenchmarkLook is what a look takes that rings asked for on an idle database: at four partitions of 64, which have five
// events, and at every partition.
func BenchmarkLook(b *testing.B) {
	for name, c := range map[string]struct {
		partitions, found int
		limits            delivery.Limits
	}{
		"named": {4, 5, delivery.Limits{Total: 256, Payload: 16 << 10, Apart: 256, ReadyOnly: true}},
		"empty": {4, 0, delivery.Limits{Total: 256, Payload: 16 << 10, Apart: 256, ReadyOnly: true}},
		"all":   {64, 5, delivery.Limits{Total: 256, Payload: 16 << 10}},
	} {
		b.Run(name, func(b *testing.B) {
			pool := pgtest.Pool(b, pgtest.Migrated(b, 64))
			store, leases, ids := stores(b, pool)
			held, err := leases.Acquire(b.Context(), uuid.New(), time.Hour, ids)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := pool.Exec(b.Context(), `SELECT outbox_append('s-' || n, 'thing.done', '{}') FROM generate_series(1, $1) AS n`, 20*c.found); err != nil {
				b.Fatal(err)
			}
			var asks []delivery.Ask
			for _, l := range held[:c.partitions] {
				row, err := store.Take(b.Context(), l, "")
				if err != nil {
					b.Fatal(err)
				}
				asks = append(asks, delivery.Ask{Lease: l, Revision: row.Revision, After: math.MinInt64, Most: max(1, 2*c.found/c.partitions)})
			}
			c.limits.UpTo, c.limits.Watermark = math.MaxInt64, true
			ctx := context.WithoutCancel(b.Context())
			for b.Loop() {
				if _, err := store.Claim(ctx, asks, c.limits, delivery.BehindStream); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
