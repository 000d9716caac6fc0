package pg_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTimesAndDurationsAreReadWithinBounds reads what no calendar of JSON has, in both formats of the wire.
func TestTimesAndDurationsAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pg.Connections{Name: "bounds", Most: 1}.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		for text, want := range map[string]time.Time{
			"infinity": pg.Latest, "-infinity": pg.Earliest, "10000-01-01 00:00Z": pg.Latest, "294276-12-31 23:59:59Z": pg.Latest,
			"4713-01-01 00:00Z BC": pg.Earliest, "0001-01-01 00:00Z": pg.Earliest, "2026-01-02 03:04:05.000006Z": time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		} {
			var at time.Time
			var maybe, none *time.Time
			var list []time.Time
			if err := pool.QueryRow(t.Context(), `SELECT $1::text::timestamptz, $1::text::timestamptz, NULL::timestamptz, ARRAY[$1::text::timestamptz]`, text).
				Scan(&at, &maybe, &none, &list); err != nil {
				t.Errorf("mode %v, %s: %v", mode, text, err)
				continue
			}
			if !at.Equal(want) || !maybe.Equal(want) || none != nil || len(list) != 1 || !list[0].Equal(want) {
				t.Errorf("mode %v, %s: %v, %v, %v, %v, want %v", mode, text, at, maybe, none, list, want)
			}
			if _, err := json.Marshal([]any{at, maybe, list}); err != nil {
				t.Errorf("mode %v, %s: %v", mode, text, err)
			}
		}
		for text, want := range map[string]time.Duration{
			"300 years": math.MaxInt64, "-300 years": math.MinInt64, "106751991 days": math.MaxInt64, "1 day 2 s": 24*time.Hour + 2*time.Second, "-1 us": -time.Microsecond,
		} {
			var d time.Duration
			var maybe, none *time.Duration
			if err := pool.QueryRow(t.Context(), `SELECT $1::text::interval, $1::text::interval, NULL::interval`, text).Scan(&d, &maybe, &none); err != nil {
				t.Errorf("mode %v, %s: %v", mode, text, err)
			} else if d != want || *maybe != want || none != nil {
				t.Errorf("mode %v, %s: %v, %v, %v, want %v", mode, text, d, *maybe, none, want)
			}
		}
		var at time.Time
		if err := pool.QueryRow(t.Context(), `SELECT NULL::timestamptz`).Scan(&at); err == nil {
			t.Errorf("mode %v: NULL is the time %v", mode, at)
		}
	}
}
