package measure

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Measures of the chart, in pixels.
const (
	chartWidth   = 960
	chartLabels  = 380
	chartBars    = 400
	chartRow     = 22
	chartHead    = 46
	chartPadding = 24
)

// WriteSVG draws each scenario's main value: a bar to the median, a line from the least to the most, and the ratio to the
// base where there is one.
func (r *Report) WriteSVG(w io.Writer) error {
	height := chartPadding * 2
	for _, result := range r.Results {
		height += chartHead + chartRow*len(result.Cases)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Postrider's benchmark">`,
		chartWidth, height, chartWidth, height)
	b.WriteString(`<style>text{font:12px system-ui,sans-serif;fill:#222}.h{font-weight:600;font-size:14px}.q{fill:#666}</style>` +
		"\n" + `<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	y := chartPadding
	for _, result := range r.Results {
		y = result.draw(&b, y)
	}
	fmt.Fprintf(&b, `<text class="q" x="%d" y="%d">%s</text>`+"\n</svg>\n", chartPadding, height-chartPadding/2, html.EscapeString(r.Title()))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// Title says what the report is of, in a line.
func (r *Report) Title() string {
	quick := ""
	if r.Quick {
		quick = ", QUICK: no measurement"
	}
	return fmt.Sprintf("postrider %s, %s, %d processors, %s: %d events of %d bytes, %d partitions, %d rounds%s",
		r.Version, r.Machine, r.Processors, r.Started.Format("2006-01-02"), r.Events, r.Payload, r.Partitions, r.Rounds, quick)
}

// draw adds a scenario and returns where the next one begins.
func (r *Result) draw(b *strings.Builder, y int) int {
	fmt.Fprintf(b, `<text class="h" x="%d" y="%d">%s</text><text class="q" x="%d" y="%d">%s</text>`+"\n",
		chartPadding, y+14, html.EscapeString(r.Scenario+": "+r.About), chartPadding, y+30, html.EscapeString(r.Main+", "+r.Unit))
	y += chartHead - 8
	most := 0.0
	for _, c := range r.Cases {
		most = max(most, c.Values[r.Main].Most)
	}
	if most == 0 {
		most = 1
	}
	place := func(v float64) float64 { return chartLabels + chartBars*v/most }
	for _, c := range r.Cases {
		v := c.Values[r.Main]
		color := "#2f6fb0"
		if c.Base == "" {
			color = "#9aa5b1"
		}
		note := Figure(v.Median)
		if ratio, found := c.Ratios[r.Main]; found {
			note += fmt.Sprintf("  (%.2f × its base)", ratio.Median)
		}
		if c.Disturbed > 0 {
			note += fmt.Sprintf(", %d disturbed", c.Disturbed)
		}
		middle := y + chartRow/2
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, chartLabels-8, middle+4, html.EscapeString(c.Name))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, chartLabels, y+3, place(v.Median)-chartLabels, chartRow-6, color)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#222"/>`, place(v.Least), place(v.Most), middle, middle)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", place(v.Most)+8, middle+4, html.EscapeString(note))
		y += chartRow
	}
	return y + 8
}

// Figure writes a number for people: three digits that count, thousands apart.
func Figure(v float64) string {
	switch {
	case v >= 1000:
		text := fmt.Sprintf("%.0f", v)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
