package web

import (
	"testing"
	"time"
)

// Lives are drawn between the first recording and now, and are wide enough to be seen.
func TestPlaceStream(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	row := func(recorded, settled time.Duration) StreamRow {
		r := StreamRow{MessageRow: MessageRow{At: Moment{At: now.Add(-recorded)}}}
		if settled > 0 {
			r.Settled = Moment{At: now.Add(-settled)}
		}
		return r
	}
	rows := []StreamRow{row(time.Second, 0), row(50*time.Second, 0), row(75*time.Second, 25*time.Second), row(100*time.Second, 100*time.Second), {}}
	PlaceStream(rows, now)
	for i, want := range []struct {
		left, width string
		took        time.Duration
	}{{"99.0", "1.0", time.Second}, {"50.0", "50.0", 50 * time.Second}, {"25.0", "50.0", 50 * time.Second}, {"0.0", "0.7", 0}, {"", "", 0}} {
		if r := rows[i]; r.Left != want.left || r.Width != want.width || r.Took != want.took {
			t.Errorf("row %d lies at %s, %s wide, and took %s; want %+v", i, r.Left, r.Width, r.Took, want)
		}
	}
}
