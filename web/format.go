package web

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	hoursPerDay    = 24
	minutesPerHour = 60
	secondsPerMin  = 60
)

func formatFuncs() template.FuncMap {
	return template.FuncMap{
		"count":    Count,
		"duration": Duration,
		"latency":  Latency,
		"dict":     dict,
		"clock":    clock,
		"minute":   minute,
		"stamp":    stamp,
		"iso":      iso,
		"plural":   plural,
		"plural64": func(n int64, one, many string) string { return plural(int(n), one, many) },
		"count64":  func(n int) string { return Count(int64(n)) },
		"len64":    func(list []Neighbour) int64 { return int64(len(list)) },
		"plain":    Plain,
		"cutShort": func(text string) string { return cut(cutShort, text) },
		"cutLong":  func(text string) string { return cut(cutLong, text) },
		"visible":  func(text string) []Segment { return Visible(text, false) },

		"visibleBlock": func(text string) []Segment { return Visible(text, true) },
	}
}

// Count writes n exactly, grouped by thousands: 1,234,567.
func Count(n int64) string { return humanize.Comma(n) }

// Rate writes a number per second with its significant digits.
func Rate(perSecond float64) string {
	switch {
	case math.IsNaN(perSecond) || perSecond <= 0:
		return "0"
	case perSecond >= math.MaxInt64: // no whole number of 64 bits
		return Count(math.MaxInt64)
	case perSecond < 10:
		return fmt.Sprintf("%.2f", perSecond)
	case perSecond < 100:
		return fmt.Sprintf("%.1f", perSecond)
	default:
		return humanize.Comma(int64(math.Round(perSecond)))
	}
}

// Duration writes d in at most two units: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min,
// 4 d 3 h. The least duration, which has no positive counterpart, is written as the next one.
func Duration(d time.Duration) string {
	if d < 0 {
		return "−" + Duration(-max(d, -math.MaxInt64))
	}
	seconds := int64(d / time.Second)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", seconds)
	case d < time.Hour:
		return twoUnits(seconds/secondsPerMin, "min", seconds%secondsPerMin, "s")
	case d < hoursPerDay*time.Hour:
		minutes := seconds / secondsPerMin
		return twoUnits(minutes/minutesPerHour, "h", minutes%minutesPerHour, "min")
	default:
		hours := seconds / (secondsPerMin * minutesPerHour)
		return twoUnits(hours/hoursPerDay, "d", hours%hoursPerDay, "h")
	}
}

// Latency writes short durations in milliseconds.
func Latency(d time.Duration) string {
	if d < 10*time.Second {
		return Count(d.Milliseconds()) + " ms"
	}
	return Duration(d)
}

// dict gives a template several values: name, value, name, value.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

func twoUnits(large int64, largeUnit string, small int64, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%s %s", Count(large), largeUnit)
	}
	return fmt.Sprintf("%s %s %d %s", Count(large), largeUnit, small, smallUnit)
}

func clock(t time.Time) string  { return t.UTC().Format("15:04:05") }
func minute(t time.Time) string { return t.UTC().Format("15:04") }
func stamp(t time.Time) string  { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }
func iso(t time.Time) string    { return t.UTC().Format(time.RFC3339Nano) }

func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return Count(int64(n)) + " " + many
}
