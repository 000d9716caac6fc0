package measure

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Measures of the chart, in pixels. A case is a line of text above its bar, so that it can be read on a narrow screen, too.
const (
	chartWidth = 720
	chartEdge  = 16
	chartBars  = chartWidth - 2*chartEdge
	chartHead  = 58
	chartRow   = 38
	chartFoot  = 76
)

// chartStyle has the documentation's colours, for light and dark. Grey marks the base of the comparison.
const chartStyle = `<style>
svg{--ground:#fff;--ink:#1b2430;--soft:#56616f;--base:#9aa5b1;--half:#ccd3da;--own:#1f6299;--own-half:#a5cbe9}
@media(prefers-color-scheme:dark){svg{--ground:#10141a;--ink:#dbe2ea;--soft:#98a5b4;--base:#7d8997;--half:#3d4754;--own:#5a9fd4;--own-half:#28506f}}
.ground{fill:var(--ground)}text{font:15px system-ui,sans-serif;fill:var(--ink)}.h{font-weight:650;font-size:18px}.q{fill:var(--soft);font-size:13.5px}
.end{text-anchor:end}.base{fill:var(--base)}.base.most{fill:var(--half)}.own{fill:var(--own)}.own.most{fill:var(--own-half)}line{stroke:var(--ink)}
</style>
`

// WriteSVG draws each scenario's main value: a bar to the median, a line from the least to the most, and the ratio to the
// base where there is one. A latency's bar has the 50th percentile in it, too.
func (r *Report) WriteSVG(w io.Writer) error {
	height := chartFoot
	for _, result := range r.Results {
		height += chartHead + chartRow*len(result.Cases)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Postrider's benchmark">`+"\n",
		chartWidth, height, chartWidth, height)
	b.WriteString(chartStyle + `<rect class="ground" width="100%" height="100%"/>` + "\n")
	y := 0
	for _, result := range r.Results {
		y = result.draw(&b, y, r.Rounds)
	}
	what, amount, _ := strings.Cut(r.Title(), ": ")
	for _, line := range []string{"Bars are medians, thin lines reach from the least round to the most.", what, amount} {
		y += 20
		fmt.Fprintf(&b, `<text class="q" x="%d" y="%d">%s</text>`+"\n", chartEdge, y, html.EscapeString(line))
	}
	b.WriteString("</svg>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// Title describes the report in a line.
func (r *Report) Title() string {
	quick := ""
	if r.Quick {
		quick = ", QUICK: no measurement"
	}
	return fmt.Sprintf("postrider %s, %s, %d processors, %s: %d events of %d bytes, %d partitions, %d rounds%s",
		r.Version, r.Machine, r.Processors, r.Started.Format("2006-01-02"), r.Events, r.Payload, r.Partitions, r.Rounds, quick)
}

// draw adds a scenario, with the intended number of rounds, and returns the y of the next one.
func (r *Result) draw(b *strings.Builder, y, rounds int) int {
	unit := r.Unit
	if r.Main == ValueP99 {
		unit = "p50 and p99 in " + unit
	}
	fmt.Fprintf(b, `<text class="h" x="%d" y="%d">%s</text><text class="q end" x="%d" y="%d">%s, × its base in grey</text>`,
		chartEdge, y+26, html.EscapeString(r.Scenario), chartWidth-chartEdge, y+26, html.EscapeString(unit))
	fmt.Fprintf(b, `<text class="q" x="%d" y="%d">%s</text>`+"\n", chartEdge, y+46, html.EscapeString(r.About))
	y += chartHead
	most := 0.0
	for _, c := range r.Cases {
		most = max(most, c.Values[r.Main].Most)
	}
	if most == 0 {
		most = 1
	}
	long := func(v float64) float64 { return chartBars * v / most }
	for _, c := range r.Cases {
		r.drawCase(b, c, y, rounds, long)
		y += chartRow
	}
	return y
}

// drawCase adds a case; long converts a value to pixels.
func (r *Result) drawCase(b *strings.Builder, c *CaseResult, y, rounds int, long func(float64) float64) {
	v, class := c.Values[r.Main], "own"
	if c.Base == "" {
		class = "base"
	}
	note := Figure(v.Median)
	bar := func(class string, value float64) {
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="10"/>`, class, chartEdge, y+21, long(value))
	}
	if r.Main == ValueP99 {
		middle := c.Values[ValueP50].Median
		note = Figure(middle) + " and " + note
		bar(class+" most", v.Median)
		bar(class, middle)
	} else {
		bar(class, v.Median)
	}
	if ratio, found := c.Ratios[r.Main]; found {
		note += fmt.Sprintf(", %.2f ×", ratio.Median)
	}
	if n := len(c.Samples); n < rounds { // it was interrupted
		note += fmt.Sprintf(", rounds: %d", n)
	}
	if c.Disturbed > 0 {
		note += fmt.Sprintf(", %d disturbed", c.Disturbed)
	}
	fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, chartEdge+long(v.Least), chartEdge+long(v.Most), y+26, y+26)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text><text class="end" x="%d" y="%d">%s</text>`+"\n",
		chartEdge, y+15, html.EscapeString(c.Name), chartWidth-chartEdge, y+15, html.EscapeString(note))
}

// Figure writes a number for people: three significant digits, grouped by thousands.
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
