package web

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTimeline(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	until := from.Add(time.Hour)
	one, two := Owner{ID: "1", Hue: 3}, Owner{ID: "2"}
	at := func(minute int) time.Time { return from.Add(time.Duration(minute) * time.Minute) }
	line := NewTimeline([]int{4, 5}, []Span{
		{4, one, at(-30), at(30)},                           // cut at the beginning
		{4, two, at(30), at(90)},                            // and at the end
		{5, Owner{}, at(10), at(10).Add(time.Millisecond)},  // too short to see
		{5, one, at(-20), at(-10)}, {9, one, at(0), at(20)}, // before it, and no lane
	}, from, until)
	var got []string
	for _, o := range line.Owners {
		got = append(got, fmt.Sprint(o.ID, o.Nobody(), o.Path))
	}
	want := "1false" + "M64.0 10.0h565.0v15.0h-565.0z" + " 2false" + "M629.0 10.0h565.0v15.0h-565.0z" + " true" + "M252.3 26.0h1.0v15.0h-1.0z"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("drawn %s, want %s", text, want)
	}
	var labels, lanes []string
	for _, l := range line.Labels {
		labels = append(labels, l.Text)
	}
	for _, l := range line.Lanes {
		lanes = append(lanes, l.Label)
	}
	if fmt.Sprint(labels, lanes) != "[11:10 11:20 11:30 11:40 11:50] [4 5]" || line.Base != 42 || line.Height != 66 {
		t.Errorf("labels %v, lanes %v, %d of %d high", labels, lanes, line.Base, line.Height)
	}

	many := make([]int, 1024)
	for n := range many {
		many[n] = n
	}
	if line = NewTimeline(many, nil, from, from.Add(30*24*time.Hour)); line.Base > 500 || len(line.Lanes) > 12 || len(line.Labels) > 8 || len(line.Owners) > 0 {
		t.Errorf("of many: base %d, %d lanes named, labels %v", line.Base, len(line.Lanes), line.Labels)
	}
}

// Those that are gone get colours apart from those that are there, whose colours stay.
func TestAddHue(t *testing.T) {
	t.Parallel()
	hues := OwnerHues([]string{"a", "b"})
	a, b := hues["a"], hues["b"]
	AddHue(hues, "c")
	AddHue(hues, "a")
	if hues["a"] != a || hues["b"] != b || len(hues) != 3 || hueDistance(hues["c"], []int{a, b}) < 2 {
		t.Errorf("%v", hues)
	}
}
