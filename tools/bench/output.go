package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/postrider/postrider/tools/bench/measure"
)

func listScenarios(out io.Writer) {
	rows := []table.Row{}
	for _, scenario := range measure.Scenarios() {
		rows = append(rows, table.Row{scenario.Name, scenario.About})
	}
	writeTable(out, table.Row{"scenario", "what it measures"}, rows)
}

// writeTable prints rows under a header.
func writeTable(w io.Writer, header table.Row, rows []table.Row) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault // case counts
	t.SetStyle(style)
	t.AppendHeader(header)
	t.AppendRows(rows)
	fmt.Fprintln(w, t.Render())
}

// writeJSON prints one value on one line.
func writeJSON(w io.Writer, value any) error {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func (c *cli) write(stdout io.Writer, report *measure.Report) error {
	if c.JSON != "-" {
		show(stdout, report)
	} else if err := writeJSON(stdout, report); err != nil {
		return err
	}
	if c.JSON != "" && c.JSON != "-" {
		if err := toFile(c.JSON, func(w io.Writer) error { return writeJSON(w, report) }); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if c.SVG != "" {
		if err := toFile(c.SVG, report.WriteSVG); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	return nil
}

// readReport reads a report of --json, and keeps its scenarios in only, or all.
func readReport(name string, only []string) (*measure.Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: --from: %w", errRefused, err)
	}
	var report measure.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("%w: --from: %s: %w", errRefused, name, err)
	}
	if len(report.Results) == 0 {
		return nil, fmt.Errorf("%w: --from: %s holds no results: it is not what bench --json writes", errRefused, name)
	}
	if len(only) == 0 {
		return &report, nil
	}
	report.Results = slices.DeleteFunc(report.Results, func(r *measure.Result) bool { return !slices.Contains(only, r.Scenario) })
	if len(report.Results) == 0 {
		return nil, fmt.Errorf("%w: --only: %s has none of %s", errRefused, name, strings.Join(only, ", "))
	}
	return &report, nil
}

func toFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// show prints a table for each scenario.
func show(out io.Writer, report *measure.Report) {
	fmt.Fprintln(out, report.Title())
	for _, result := range report.Results {
		columns := result.Columns()
		header := table.Row{result.Scenario}
		for _, name := range columns {
			header = append(header, strings.ReplaceAll(name, "_", " "))
		}
		var rows []table.Row
		for _, one := range result.Cases {
			if len(one.Samples) == 0 {
				continue
			}
			row := table.Row{one.Name}
			for i, name := range columns {
				row = append(row, cell(one, name, i == 0))
			}
			rows = append(rows, append(row, ratio(one, result.Main), mark(one)))
		}
		fmt.Fprintln(out)
		writeTable(out, append(header, "× its base", ""), rows)
	}
}

// cell returns a median, with its spread in the main column.
func cell(c *measure.CaseResult, name string, spread bool) string {
	v, found := c.Values[name]
	switch {
	case !found:
		return ""
	case spread && len(c.Samples) > 1:
		return fmt.Sprintf("%s [%s–%s]", measure.Figure(v.Median), measure.Figure(v.Least), measure.Figure(v.Most))
	default:
		return measure.Figure(v.Median)
	}
}

func ratio(c *measure.CaseResult, name string) string {
	ratio, found := c.Ratios[name]
	if !found {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio.Median)
}

func mark(c *measure.CaseResult) string {
	if c.Disturbed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rounds disturbed", c.Disturbed, len(c.Samples))
}
