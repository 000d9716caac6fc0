package web

import (
	"strings"
	"testing"
	"time"
)

func TestSecondsChart(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 33, 50, 0, time.UTC)
	var seconds []Second
	for n := range 20 {
		seconds = append(seconds, Second{At: at.Add(time.Duration(n) * time.Second), Published: int64(100 * n)})
	}
	c := NewSecondsChart(seconds)
	if c.Whole || !c.Begins.Equal(at) || c.Peak != 1900 || c.Mean != "950" || c.Last != 1900 {
		t.Errorf("%+v", c)
	}
	// Twenty of three hundred steps, at the right end.
	if c.Unknown != units(1130.0*280/300) || !strings.HasPrefix(c.Area, "M1118.7 106V106.0H1122.4V") || !strings.HasSuffix(c.Area, "H1194.0V106Z") {
		t.Errorf("%s of nothing, then %s", c.Unknown, c.Area)
	}
	if len(c.Labels) != 1 || c.Labels[0] != (AxisLabel{"1156.3", "12:34"}) {
		t.Errorf("labels %v", c.Labels)
	}
	for n := range 400 {
		seconds = append(seconds, Second{At: at.Add(time.Duration(20+n) * time.Second), Published: 5})
	}
	if c = NewSecondsChart(seconds); !c.Whole || c.Peak != 5 || strings.Count(c.Area, "H") != 300 || len(c.Labels) != 5 {
		t.Errorf("of more than five minutes: whole %v, peak %d, labels %v", c.Whole, c.Peak, c.Labels)
	}
}
