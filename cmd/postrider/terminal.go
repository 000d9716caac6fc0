package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// fullWidth is an output with tables as wide as their cells, even on a terminal.
type fullWidth struct{ io.Writer }

// terminal returns the file behind an output, if it is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	if full, is := w.(fullWidth); is {
		w = full.Writer
	}
	if visible, is := w.(visibleWriter); is {
		w = visible.to
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

func isTerminal(w io.Writer) bool {
	_, is := terminal(w)
	return is
}

// terminalSize is 80 by 24 where a terminal does not say.
func terminalSize(w io.Writer) (columns, rows int) {
	if f, is := terminal(w); is {
		columns, rows, _ = term.GetSize(int(f.Fd())) // 0 where the terminal does not say
	}
	return cmp.Or(columns, 80), cmp.Or(rows, 24)
}

const (
	// columnGap is the space between two columns.
	columnGap = 2
	// leastToken, leastTime, leastName and leastProse are the least widths of words, times, names of numbers and wrapped texts.
	leastToken, leastTime, leastName, leastProse = 10, 12, 5, 24
)

type column struct {
	name    string
	cells   []string
	numbers bool // aligned to the right
	prose   bool // wrapped, not cut
	least   int  // the width to which a word may be cut
	width   int
	holds   int // the width of its widest cell
}

// fitTable renders rows in at most width columns; 0: unlimited. It cuts words, wraps texts, and names columns that are empty or all
// nought below.
func fitTable(width int, header table.Row, rows []table.Row) string {
	columns := make([]*column, len(header))
	for i, name := range header {
		columns[i] = newColumn(fmt.Sprint(name), i, rows)
	}
	var below *column
	var empty []string
	if width > 0 && total(columns) > width {
		columns, empty = withoutEmpty(columns)
		shortenTimes(columns, time.Now())
		if last := columns[len(columns)-1]; last.prose {
			last.width = max(width-total(columns[:len(columns)-1])-columnGap, 0)
			if last.width < leastProse {
				columns, below = columns[:len(columns)-1], last
				below.width = width - columnGap
			}
		}
		cut(columns, width)
	}
	var b strings.Builder
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.name
	}
	writeRow(&b, columns, heads)
	for r := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cells[r]
		}
		writeRow(&b, columns, cells)
		if below != nil && below.cells[r] != "" {
			for _, line := range wrapped(below.cells[r], below.width) {
				b.WriteString(strings.Repeat(" ", columnGap) + line + "\n")
			}
		}
	}
	if len(empty) > 0 && len(rows) > 0 {
		for _, line := range wrapped("0 or empty in all rows: "+strings.Join(empty, ", "), width) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func newColumn(name string, i int, rows []table.Row) *column {
	c := &column{name: printable(name), numbers: len(rows) > 0, least: leastToken}
	c.width = text.StringWidthWithoutEscSequences(c.name)
	for _, row := range rows {
		cell := ""
		if i < len(row) && row[i] != nil {
			cell = strings.TrimRight(printable(fmt.Sprint(row[i])), " \n")
			v := reflect.ValueOf(row[i])
			c.numbers = c.numbers && (v.CanInt() || v.CanUint() || v.CanFloat())
		}
		for line := range strings.SplitSeq(cell, "\n") {
			w := text.StringWidthWithoutEscSequences(line)
			c.holds, c.prose = max(c.holds, w), c.prose || w > 30 && strings.Contains(line, " ")
		}
		c.cells = append(c.cells, cell)
	}
	c.width = max(c.width, c.holds)
	return c
}

var timeShape = regexp.MustCompile(`(\d{4})-(\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z`)

var secondsShape = regexp.MustCompile(`(\d\d-\d\d \d\d:\d\d):\d\dZ$`)

// shortenTimes leaves out the current year, and fractions of a second.
func shortenTimes(columns []*column, now time.Time) {
	year := now.UTC().Format("2006")
	for _, c := range columns {
		holds := 0
		for i, cell := range c.cells {
			c.cells[i] = timeShape.ReplaceAllStringFunc(cell, func(at string) string {
				if parts := timeShape.FindStringSubmatch(at); parts[1] == year {
					c.least = leastTime
					return parts[2] + " " + parts[3] + "Z"
				}
				return at
			})
			for line := range strings.SplitSeq(c.cells[i], "\n") {
				holds = max(holds, text.StringWidthWithoutEscSequences(line))
			}
		}
		if holds < c.holds {
			c.holds, c.width = holds, max(holds, text.StringWidthWithoutEscSequences(c.name))
		}
	}
}

func total(columns []*column) (width int) {
	for _, c := range columns {
		width += c.width + columnGap
	}
	return width - columnGap
}

// withoutEmpty keeps the first column and all that are not empty.
func withoutEmpty(columns []*column) (full []*column, empty []string) {
	for i, c := range columns {
		if i == 0 || slices.ContainsFunc(c.cells, func(cell string) bool { return cell != "" && cell != "0" && cell != "0s" && cell != "–" }) {
			full = append(full, c)
		} else {
			empty = append(empty, c.name)
		}
	}
	return full, empty
}

// cut narrows the widest column repeatedly, until all fit or none can be cut further. The names of numbers come last.
func cut(columns []*column, width int) {
	for total(columns) > width {
		var widest *column
		for _, c := range columns {
			least := c.least
			if c.prose {
				least = leastProse
			}
			if c.numbers || c.width <= least {
				continue
			}
			if c.holds < c.width { // of the name alone
				widest = c
				break
			}
			if widest == nil || c.width > widest.width {
				widest = c
			}
		}
		for _, c := range columns {
			if among := widest == nil || widest.numbers && c.width > widest.width; among && c.numbers && c.width > max(c.holds, leastName) {
				widest = c
			}
		}
		if widest == nil {
			return
		}
		widest.width--
	}
}

var uuidShape = regexp.MustCompile(`^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$`)

// shortened cuts a word to at most width columns. An id keeps its end, by which commands find it.
func shortened(word string, width int) string {
	if text.StringWidthWithoutEscSequences(word) <= width {
		return word
	}
	if minutes := secondsShape.ReplaceAllString(word, "${1}Z"); len(minutes) < len(word) {
		return shortened(minutes, width)
	}
	runes := []rune(word)
	if uuidShape.MatchString(word) {
		return "…" + string(runes[len(runes)-min(width-1, 12):])
	}
	for len(runes) > 0 && text.StringWidthWithoutEscSequences(string(runes)) > width-1 {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// wrapped breaks a text at spaces; a word longer than a line goes on in the next.
func wrapped(long string, width int) []string {
	lines := strings.Split(text.WrapSoft(long, max(width, 1)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func writeRow(b *strings.Builder, columns []*column, cells []string) {
	lines := make([][]string, len(columns))
	height := 1
	for i, c := range columns {
		for one := range strings.SplitSeq(cells[i], "\n") {
			if text.StringWidthWithoutEscSequences(one) > c.width && c.prose {
				lines[i] = append(lines[i], wrapped(one, c.width)...)
			} else {
				lines[i] = append(lines[i], shortened(one, c.width))
			}
		}
		height = max(height, len(lines[i]))
	}
	for n := range height {
		line := ""
		for i, c := range columns {
			cell := ""
			if n < len(lines[i]) {
				cell = strings.TrimRight(lines[i][n], " ")
			}
			pad := strings.Repeat(" ", max(c.width-text.StringWidthWithoutEscSequences(cell), 0))
			if c.numbers {
				cell, pad = pad+cell, ""
			}
			line += cell + pad + strings.Repeat(" ", columnGap)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
