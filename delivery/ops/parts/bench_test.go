package parts_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// What parts cost: producers, who look for a stream's version in all of them, with and without an id of their own, and the
// relay, which reads events by their sequences.
func BenchmarkParts(b *testing.B) {
	const streams, reads = 500, 500
	for _, count := range []int{0, 1, 12, 60} {
		pool := pgtest.Pool(b, pgtest.Migrated(b, 4))
		store, err := parts.New(parts.Config{Pool: pool, Schema: "public"})
		if err != nil {
			b.Fatal(err)
		}
		fill := func() {
			if _, err := pool.Exec(b.Context(), `SELECT outbox_append('s' || n % $1, 't', '{}', publish => false) FROM generate_series(1, 2000) AS n`, streams); err != nil {
				b.Fatal(err)
			}
		}
		fill()
		if count > 0 {
			if _, err := store.Split(b.Context(), who); err != nil {
				b.Fatal(err)
			}
		}
		for range count - 1 {
			if _, _, err := store.Begin(b.Context(), who); err != nil {
				b.Fatal(err)
			}
			fill()
		}
		for name, sql := range map[string]string{
			"append":         `SELECT outbox_append('s' || n % 500, 't', '{}', publish => false) FROM generate_series(1, 1000) AS n`,
			"append with id": `SELECT outbox_append('s' || n % 500, 't', '{}', publish => false, event_id => gen_random_uuid()) FROM generate_series(1, 1000) AS n`,
		} {
			b.Run(fmt.Sprintf("parts=%d/%s", count, name), func(b *testing.B) {
				for b.Loop() {
					if _, err := pool.Exec(b.Context(), sql); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "µs/event")
			})
		}
		var sequences []int64
		if err := pool.QueryRow(b.Context(), `SELECT array_agg(s) FROM (SELECT sequence AS s FROM events ORDER BY sequence DESC LIMIT $1) AS s`, reads).Scan(&sequences); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("parts=%d/read", count), func(b *testing.B) {
			for b.Loop() {
				rows, err := pool.Query(b.Context(), `SELECT e.event_id, e.payload FROM events AS e WHERE e.sequence = ANY ($1) AND e.sequence BETWEEN $2 AND $3`,
					sequences, slices.Min(sequences), slices.Max(sequences))
				if err != nil {
					b.Fatal(err)
				}
				for rows.Next() {
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N)/reads, "µs/event")
		})
	}
}
