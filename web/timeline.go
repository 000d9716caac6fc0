package web

import (
	"fmt"
	"strings"
	"time"
)

// The timeline's lanes share this height, and none is higher than laneHeight.
const (
	lanesHeight = 420
	laneHeight  = 16
)

// Timeline draws the owners of partitions, a lane for each partition, ready for an SVG template. A path for each owner keeps it small with
// thousands of partitions.
type Timeline struct {
	Width, Height, Left, Right, Top, Base int
	// From and Until bound the drawn time; Cut says that too many changes shortened it.
	From, Until time.Time
	Cut         bool
	// Partitions counts the lanes.
	Partitions int
	// Owners have a path each; the one without ID shows partitions without owner.
	Owners []TimelineOwner
	Lanes  []Tick
	Labels []AxisLabel

	lane float64
	ids  []int
	at   map[int]int
}

// TimelineOwner draws the partitions of one owner.
type TimelineOwner struct {
	Owner
	Path string
}

// Nobody reports whether the path shows partitions without owner.
func (o TimelineOwner) Nobody() bool { return o.ID == "" }

// Span is one owner's time with one partition; an Owner without ID is nobody.
type Span struct {
	Partition   int
	Owner       Owner
	From, Until time.Time
}

// NewTimeline lays out spans of these partitions, which ascend. It cuts spans at from and until.
func NewTimeline(partitions []int, spans []Span, from, until time.Time) *Timeline {
	t := &Timeline{
		Width: chartWidth, Left: chartLeft, Right: chartWidth - chartRight, Top: chartTop, From: from, Until: until,
		Partitions: len(partitions), ids: partitions, at: map[int]int{},
	}
	t.lane = min(laneHeight, lanesHeight/float64(max(1, len(partitions))))
	t.Base = t.Top + int(t.lane*float64(len(partitions))+0.5)
	t.Height = t.Base + chartBottom
	for i, p := range partitions {
		t.at[p] = i
	}
	paths, order := map[string]*strings.Builder{}, []Owner(nil)
	for _, s := range spans {
		lane, known := t.at[s.Partition]
		if s.From.Before(from) {
			s.From = from
		}
		if s.Until.After(until) {
			s.Until = until
		}
		if !known || !s.From.Before(s.Until) {
			continue
		}
		path := paths[s.Owner.ID]
		if path == nil {
			path = &strings.Builder{}
			paths[s.Owner.ID] = path
			order = append(order, s.Owner)
		}
		t.draw(path, lane, s)
	}
	for _, o := range order {
		t.Owners = append(t.Owners, TimelineOwner{Owner: o, Path: paths[o.ID].String()})
	}
	t.label()
	return t
}

func (t *Timeline) x(at time.Time) float64 {
	return float64(t.Left) + float64(t.Right-t.Left)*float64(at.Sub(t.From))/float64(t.Until.Sub(t.From))
}

// draw adds a bar, at least a unit wide: a second without an owner must show in an hour.
func (t *Timeline) draw(path *strings.Builder, lane int, s Span) {
	left := t.x(s.From)
	width := max(1, t.x(s.Until)-left)
	gap := 0.0
	if t.lane > 4 {
		gap = 1
	}
	fmt.Fprintf(path, "M%s %sh%sv%sh-%sz", units(left), units(float64(t.Top)+t.lane*float64(lane)), units(width), units(t.lane-gap), units(width))
}

// label names about a dozen lanes and half a dozen times.
func (t *Timeline) label() {
	const lanes, times = 12, 8
	every := max(1, (len(t.ids)+lanes-1)/lanes)
	for i := 0; i < len(t.ids); i += every {
		t.Lanes = append(t.Lanes, Tick{Y: units(float64(t.Top) + t.lane*(float64(i)+0.5)), Label: Count(int64(t.ids[i]))})
	}
	step := time.Minute
	for _, longer := range []time.Duration{2, 5, 10, 15, 30, 60, 120, 360, 720, 1440, 7 * 1440, 30 * 1440} {
		if t.Until.Sub(t.From) <= times*step {
			break
		}
		step = longer * time.Minute
	}
	write := minute
	if step > 2*time.Hour {
		write = func(at time.Time) string { return at.UTC().Format("01-02 15:04") }
	}
	for at := t.From.Truncate(step).Add(step); at.Before(t.Until); at = at.Add(step) {
		if x := t.x(at); x > float64(t.Left+20) && x < float64(t.Right-20) {
			t.Labels = append(t.Labels, AxisLabel{X: units(x), Text: write(at)})
		}
	}
}
