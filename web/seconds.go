package web

import (
	"fmt"
	"strings"
	"time"
)

const (
	secondsShown  = 300
	secondsHeight = 130
)

// Second counts the events published in one second.
type Second struct {
	At        time.Time
	Published int64
}

// SecondsChart is an area over the last five minutes, a step a second, ready for an SVG template as Chart is. Unknown seconds stay empty at
// its left.
type SecondsChart struct {
	Width, Height int
	// Left, Right, Top and Base bound the plot, Plot is its height.
	Left, Right, Top, Base, Plot int
	Ticks                        []Tick
	// Area is the path of the published events.
	Area   string
	Labels []AxisLabel
	// Begins is the first known second. Whole says that all are known; Unknown is the width of the others.
	Begins  time.Time
	Whole   bool
	Unknown string
	// Peak, Last and Mean are events a second.
	Peak, Last int64
	Mean       string
}

// AxisLabel is a text below the plot.
type AxisLabel struct{ X, Text string }

// NewSecondsChart lays out consecutive seconds, oldest first; at least one.
func NewSecondsChart(seconds []Second) *SecondsChart {
	seconds = seconds[max(0, len(seconds)-secondsShown):]
	c := &SecondsChart{
		Width: chartWidth, Height: secondsHeight, Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop,
		Base: secondsHeight - chartBottom, Begins: seconds[0].At, Whole: len(seconds) == secondsShown, Last: seconds[len(seconds)-1].Published,
	}
	c.Plot = c.Base - c.Top
	var total int64
	for _, s := range seconds {
		c.Peak, total = max(c.Peak, s.Published), plus(total, s.Published)
	}
	c.Mean = Rate(float64(total) / float64(len(seconds)))
	var scale float64
	c.Ticks, scale = ticks(c.Peak, c.Base)

	pitch := float64(c.Right-c.Left) / secondsShown
	x := float64(c.Left) + pitch*float64(secondsShown-len(seconds))
	c.Unknown = units(x - float64(c.Left))
	var area strings.Builder
	fmt.Fprintf(&area, "M%s %d", units(x), c.Base)
	for _, s := range seconds {
		if s.At.Second() == 0 {
			c.Labels = append(c.Labels, AxisLabel{X: units(x), Text: minute(s.At)})
		}
		x += pitch
		fmt.Fprintf(&area, "V%sH%s", units(float64(c.Base)-float64(c.Plot)*float64(s.Published)/scale), units(x))
	}
	fmt.Fprintf(&area, "V%dZ", c.Base)
	c.Area = area.String()
	return c
}
