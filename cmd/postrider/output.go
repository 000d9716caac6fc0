package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// writeJSON prints one value on one line.
func writeJSON(w io.Writer, value any) error {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// writeTable prints rows under a header.
func writeTable(w io.Writer, header table.Row, rows []table.Row) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault // names of schemas stand there, and case counts
	t.SetStyle(style)
	t.AppendHeader(header)
	for _, row := range rows {
		t.AppendRow(printableRow(row))
	}
	fmt.Fprintln(w, t.Render())
}

// printableRow is a row whose texts cannot steer a terminal, whoever wrote them into the database.
func printableRow(row table.Row) table.Row {
	clean := make(table.Row, len(row))
	for i, cell := range row {
		clean[i] = cell
		if reflect.ValueOf(cell).Kind() == reflect.String {
			clean[i] = printable(fmt.Sprint(cell))
		}
	}
	return clean
}

// passingLine is a line on a terminal that tells how far a command came; it is written over, begins when that takes a while, and is gone at
// the end. Elsewhere nothing is written.
type passingLine struct {
	out   io.Writer
	began time.Time
	open  bool
}

func (p *passingLine) show(format string, args ...any) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if !isTerminal(p.out) || time.Since(p.began) < time.Second {
		return
	}
	fmt.Fprint(p.out, "\r\x1b[K"+fmt.Sprintf(format, args...))
	p.open = true
}

func (p *passingLine) end() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}
