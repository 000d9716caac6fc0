package web

import (
	"math"
	"strings"
	"testing"
	"time"
)

// FuzzFormats gives every formatter what a table can hold: each ends, and none writes a positive number as a negative one.
func FuzzFormats(f *testing.F) {
	for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, int64(time.Hour), -int64(time.Hour)} {
		f.Add(n, n)
	}
	f.Fuzz(func(t *testing.T, n, m int64) {
		d := time.Duration(n)
		for _, text := range []string{Duration(d), Latency(d), Count(n)} {
			if negative := strings.HasPrefix(text, "−") || strings.HasPrefix(text, "-"); negative && n >= 0 || text == "" {
				t.Errorf("%d is %q", n, text)
			}
		}
		for _, rate := range []float64{float64(n), math.Float64frombits(uint64(n))} {
			if text := Rate(rate); strings.HasPrefix(text, "-") || text == "" {
				t.Errorf("%v a second are %q", rate, text)
			}
		}
		at, now := time.UnixMicro(n), time.UnixMicro(m)
		moment := Moment{At: at, Now: now}
		if text := moment.Relative(); strings.HasPrefix(text, "in ") != now.Before(at) || strings.Contains(text, "−") {
			t.Errorf("%v is %q at %v", at, text, now)
		}
		for _, write := range []func(time.Time) string{clock, minute, stamp, iso} {
			if write(at) == "" {
				t.Errorf("%v is nothing", at)
			}
		}
		plural(int(n), "one", "many")
		chart := NewChart([]Minute{{At: at, Published: n, Failed: m}, {At: now, Published: m, Failed: n, Retried: n, Skipped: m}})
		seconds := NewSecondsChart([]Second{{At: at, Published: n}, {At: now, Published: m}})
		if len(chart.Ticks) > 50 || len(seconds.Ticks) > 50 || chart.Published < 0 || chart.Failed < 0 {
			t.Errorf("%d and %d: %d and %d lines, %d published", n, m, len(chart.Ticks), len(seconds.Ticks), chart.Published)
		}
		for _, text := range []string{seconds.Area, seconds.Mean} {
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%d and %d: %s", n, m, text)
			}
		}
	})
}

// TestDurationsAreWritten has the ends of each unit.
func TestDurationsAreWritten(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0.0 s", -time.Second: "−1.0 s", 90 * time.Second: "1 min 30 s", 25 * time.Hour: "1 d 1 h",
		math.MaxInt64: "106,751 d 23 h", math.MinInt64: "−106,751 d 23 h", math.MinInt64 + 1: "−106,751 d 23 h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
