package loop_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// BenchmarkStore is what the statements of a delivery take for each event, one after the other on an idle database: 64
// partitions, batches of 500 bytes, so many partitions in a claim and a mark.
func BenchmarkStore(b *testing.B) {
	for name, together := range map[string]int{"1 partition": 1, "8 partitions": 8} {
		b.Run(name, func(b *testing.B) {
			var claim, rehydrate, mark time.Duration
			events := 0
			for b.Loop() {
				b.StopTimer()
				pool := pgtest.Pool(b, pgtest.Migrated(b, 64))
				fill(b, pool)
				store, leases, ids := stores(b, pool)
				held, err := leases.Acquire(b.Context(), uuid.New(), time.Hour, ids)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := pool.Exec(b.Context(), `CHECKPOINT`, pgx.QueryExecModeSimpleProtocol); err != nil {
					b.Fatal(err)
				}
				asks := make([]delivery.Ask, 64)
				for n, l := range held {
					row, err := store.Take(b.Context(), l, "")
					if err != nil {
						b.Fatal(err)
					}
					asks[n] = delivery.Ask{Lease: l, Revision: row.Revision, Most: 500}
				}
				b.StartTimer()
				for turn, idle := 0, 0; idle < 64/together; turn++ {
					at := turn * together % 64
					times, n := storeRound(b, store, asks[at:at+together])
					claim, rehydrate, mark = claim+times[0], rehydrate+times[1], mark+times[2]
					events += n
					if n == 0 {
						idle++
					} else {
						idle = 0
					}
				}
			}
			for unit, d := range map[string]time.Duration{"claim-µs/event": claim, "rehydrate-µs/event": rehydrate, "mark-µs/event": mark} {
				b.ReportMetric(float64(d.Nanoseconds())/1000/float64(events), unit)
			}
		})
	}
}

// stores are those of the delivery and of the leases, with the partitions of the benchmarks.
func stores(b *testing.B, pool *pgxpool.Pool) (*pgstore.Store, *lease.Store, []partition.ID) {
	b.Helper()
	store, err := pgstore.New(b.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		b.Fatal(err)
	}
	leases, err := lease.NewStore(b.Context(), pool, "public")
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]partition.ID, 64)
	for i := range ids {
		ids[i] = partition.ID(i) // below 64
	}
	return store, leases, ids
}

// storeRound claims, reads and marks, and moves what is asked on.
func storeRound(b *testing.B, store *pgstore.Store, asks []delivery.Ask) (times [3]time.Duration, n int) {
	b.Helper()
	ctx, began := context.WithoutCancel(b.Context()), time.Now()
	found, err := store.Claim(ctx, asks, delivery.Limits{Total: math.MaxInt32, UpTo: math.MaxInt64}, delivery.BehindStream)
	if err != nil {
		b.Fatal(err)
	}
	times[0] = time.Since(began)
	var sequences []int64
	var results []delivery.Result
	for _, batch := range found.Batches {
		ask := &asks[slices.IndexFunc(asks, func(a delivery.Ask) bool { return a.Lease == batch.Lease })]
		r := delivery.Result{Batch: batch, Revision: ask.Revision}
		ask.Revision++
		for _, m := range batch.Messages {
			sequences = append(sequences, m.Sequence)
			r.Outcomes = append(r.Outcomes, delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(m.Sequence)})
			ask.After = m.Sequence
		}
		results = append(results, r)
	}
	if len(sequences) == 0 {
		return times, 0
	}
	began = time.Now()
	if _, _, err := store.Rehydrate(ctx, time.Time{}, sequences, 1<<20, 1<<30); err != nil {
		b.Fatal(err)
	}
	times[1] = time.Since(began)
	began = time.Now()
	if _, err := store.Mark(ctx, results, delivery.RetryPolicy{}, func() float64 { return 0 }); err != nil {
		b.Fatal(err)
	}
	times[2] = time.Since(began)
	return times, len(sequences)
}
