package web

import (
	"fmt"
	"math"
	"time"
)

// The chart has these units, which the browser scales to the width at hand; heights are close to CSS pixels on a wide screen.
const (
	chartWidth   = 1200
	chartHeight  = 190
	chartLeft    = 64
	chartRight   = 6
	chartTop     = 10
	chartBottom  = 24
	barGap       = 2
	labelEvery   = 10
	leastMinutes = 15
	wantedTicks  = 4
	minimumScale = 4
)

// Minute is one bucket of the throughput chart.
type Minute struct {
	// At is the bucket's first instant.
	At time.Time
	// Published, Failed, Retried and Skipped count events; Retried counts published ones that took more than one attempt.
	Published, Failed, Retried, Skipped int64
}

func (m Minute) empty() bool { return m.Published == 0 && m.Failed == 0 && m.Skipped == 0 }

// Chart is a stacked bar chart, one bar a minute, ready for an SVG template: Go computes all geometry, so that the page needs neither script
// nor inline style.
type Chart struct {
	Width, Height int
	// Left, Right and Base bound the plot.
	Left, Right, Base int
	Ticks             []Tick
	Bars              []Bar
	// Published, Failed, Retried and Skipped are the totals over all bars.
	Published, Failed, Retried, Skipped int64
	// Peak is the largest number of events published in a minute.
	Peak int64
}

// Tick is a horizontal grid line.
type Tick struct {
	Y     string
	Label string
}

// Bar is one minute: its column and the stacked pieces in it.
type Bar struct {
	Minute
	X, Width, Middle string
	// Label is the axis label below the bar; most bars have none.
	Label  string
	Pieces []Piece
}

// Piece is one coloured part of a bar.
type Piece struct {
	// Class is "published" (at the first attempt), "retried" or "failed".
	Class     string
	Y, Height string
}

// NewChart lays out the buckets, oldest first. It begins with the first event, but at least a quarter of an hour back: the first minutes of
// an outbox would be lost in an empty hour.
func NewChart(minutes []Minute) Chart {
	for len(minutes) > leastMinutes && minutes[0].empty() {
		minutes = minutes[1:]
	}
	chart := Chart{
		Width: chartWidth, Height: chartHeight,
		Left: chartLeft, Right: chartWidth - chartRight, Base: chartHeight - chartBottom,
	}
	var highest int64
	for _, m := range minutes {
		chart.Published = plus(chart.Published, m.Published)
		chart.Failed = plus(chart.Failed, m.Failed)
		chart.Retried = plus(chart.Retried, m.Retried)
		chart.Skipped = plus(chart.Skipped, m.Skipped)
		chart.Peak = max(chart.Peak, m.Published)
		highest = max(highest, plus(m.Published, m.Failed))
	}

	plot := float64(chart.Base - chartTop)
	var scale float64
	chart.Ticks, scale = ticks(highest, chart.Base)
	if len(minutes) == 0 {
		return chart
	}
	pitch := float64(chart.Right-chart.Left) / float64(len(minutes))
	for i, m := range minutes {
		chart.Bars = append(chart.Bars, newBar(m, float64(chart.Left)+float64(i)*pitch, pitch, plot/scale, chart.Base))
	}
	return chart
}

func newBar(m Minute, x, pitch, perEvent float64, base int) Bar {
	bar := Bar{
		Minute: m,
		X:      units(x + barGap/2),
		Width:  units(pitch - barGap),
		Middle: units(x + pitch/2),
	}
	if m.At.Minute()%labelEvery == 0 {
		bar.Label = minute(m.At)
	}
	bottom := float64(base)
	for _, piece := range []struct {
		class string
		count int64
	}{{"published", m.Published - m.Retried}, {"retried", m.Retried}, {"failed", m.Failed}} {
		if piece.count <= 0 {
			continue
		}
		// Never thinner than a unit: one failure among a million must show.
		height := math.Max(1, float64(piece.count)*perEvent)
		bottom -= height
		bar.Pieces = append(bar.Pieces, Piece{Class: piece.class, Y: units(bottom), Height: units(height)})
	}
	return bar
}

// ticks returns the grid lines up to a round number above the highest value: the scale's end.
func ticks(highest int64, base int) (lines []Tick, scale float64) {
	highest = min(highest, highestDrawn)
	step := tickStep(highest)
	scale = float64(step * ceilDiv(max(highest, minimumScale), step))
	for value := int64(0); float64(value) <= scale; value += step {
		lines = append(lines, Tick{Y: units(float64(base) - float64(base-chartTop)*float64(value)/scale), Label: Count(value)})
	}
	return lines, scale
}

// highestDrawn leaves room above: the next line is still a number of 64 bits.
const highestDrawn = math.MaxInt64 / 4

// plus returns the sum, or math.MaxInt64 on overflow.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return max(a, 0) + max(b, 0)
}

// tickStep picks a round distance (1, 2 or 5 times a power of ten) that gives about wantedTicks grid lines.
func tickStep(highest int64) int64 {
	raw := float64(max(highest, minimumScale)) / wantedTicks
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range []float64{1, 2, 5} {
		if raw <= factor*power {
			return max(1, int64(math.Round(factor*power)))
		}
	}
	return max(1, int64(math.Round(10*power)))
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func units(v float64) string { return fmt.Sprintf("%.1f", v) }
