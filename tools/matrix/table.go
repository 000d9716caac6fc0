package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// page has the table, between these lines.
const (
	page       = "docs/deployment.md"
	tableBegin = "<!-- written by make test/matrix -->\n"
	tableEnd   = "<!-- end -->\n"
)

// table returns all cells in Markdown, a row for each release of PostgreSQL.
func table(say func(cell) string) string {
	var text strings.Builder
	text.WriteString("| PostgreSQL |")
	columns := row(databases()[0])
	for _, c := range columns {
		if c.refuses {
			fmt.Fprintf(&text, " %s, functions refused |", c.broker.line)
		} else {
			fmt.Fprintf(&text, " nats-server %s |", c.broker.line)
		}
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, d := range databases() {
		fmt.Fprintf(&text, "| %d |", d.major)
		for _, c := range row(d) {
			fmt.Fprintf(&text, " %s |", say(c))
		}
		text.WriteString("\n")
	}
	return text.String()
}

var errNoTable = errors.New("has no place for the table")

// written returns a page's table, and the page around it.
func written(name string) (before, table, after string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", "", "", err
	}
	before, rest, begun := strings.Cut(string(text), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return "", "", "", fmt.Errorf("%s %w", name, errNoTable)
	}
	return before + tableBegin, table, tableEnd + after, nil
}

// write puts the table into a page.
func write(name, table string) error {
	before, _, after, err := written(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(before+table+after), 0o644)
}
