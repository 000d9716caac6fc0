package pg

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// FuzzBounds: whatever is stored, the time can be written as JSON in every zone, and durations keep their sign.
func FuzzBounds(f *testing.F) {
	f.Add(int64(math.MaxInt64), int32(math.MaxInt32), int32(math.MinInt32))
	f.Add(int64(math.MinInt64), int32(0), int32(0))
	f.Fuzz(func(t *testing.T, n int64, days, months int32) {
		for _, zone := range []int{-12, 0, 14} {
			at := bounded(pgtype.Timestamptz{Time: time.UnixMicro(n).In(time.FixedZone("", zone*3600)), Valid: true})
			if _, err := json.Marshal(at); err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
		d := lasting(pgtype.Interval{Microseconds: n, Days: days, Months: months})
		exact := float64(n)*1e3 + (float64(days)+30*float64(months))*86400e9
		if (exact < 0) != (d < 0) && math.Abs(exact) > 1e6 {
			t.Errorf("%d us, %d days, %d months last %v", n, days, months, d)
		}
	})
}
