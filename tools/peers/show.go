package main

import (
	"fmt"
	"io"

	"github.com/postrider/postrider/tools/bench/measure"
)

// show prints a line for each case.
func show(out io.Writer, report *measure.Report) {
	fmt.Fprintln(out, report.Title())
	for _, r := range report.Results {
		line := showDrain
		if r.Scenario == "latency" {
			line = showLatency
			fmt.Fprintf(out, "\n%-52s %8s %26s %8s %8s %8s %8s %8s %9s %8s %8s %8s\n", r.Scenario,
				"p50 ms", "p99", "max", "due p50", "due p99", "× p50", "× p99", "postgres", "handler", "nats", "checked")
		} else {
			fmt.Fprintf(out, "\n%-38s %28s %8s %8s %9s %8s %8s\n", r.Scenario, "events/s", "× null", "relay µs", "postgres", "nats", "MiB")
		}
		for _, c := range r.Cases {
			if len(c.Samples) > 0 {
				line(out, c)
			}
		}
	}
}

func showDrain(out io.Writer, c *measure.CaseResult) {
	fmt.Fprintf(out, "%-38s %28s %8.2f %8.1f %9.1f %8.1f %8.0f%s\n", c.Name, spread(c, measure.ValueRate),
		c.Ratios[measure.ValueRate].Median, c.Values[measure.ValueRelay].Median, c.Values[measure.ValuePostgres].Median,
		c.Values[measure.ValueNATS].Median, c.Values[measure.ValueMemory].Median, mark(c))
}

// showLatency prints milliseconds from the commit and from when it was due, ratios to the relay's of the same round, and percents of a processor.
func showLatency(out io.Writer, c *measure.CaseResult) {
	cell := func(values map[string]measure.Spread, name, format string) string {
		v, found := values[name]
		if !found {
			return ""
		}
		return fmt.Sprintf(format, v.Median)
	}
	ms := func(name string) string { return cell(c.Values, name, "%.1f") }
	times := func(name string) string { return cell(c.Ratios, name, "%.2f") }
	percent := func(name string) string { return cell(c.Values, name, "%.1f %%") }
	checked := 0
	for _, s := range c.Samples {
		checked += s.Events
	}
	p99 := ""
	if _, found := c.Values[measure.ValueP99]; found {
		p99 = spread(c, measure.ValueP99)
	}
	slow := ""
	if reached := c.Values[measure.ValueReached].Median; reached < 0.95 {
		slow = fmt.Sprintf("  reached %.2f of the rate", reached)
	}
	fmt.Fprintf(out, "%-52s %8s %26s %8s %8s %8s %8s %8s %9s %8s %8s %8d%s%s\n", c.Name, ms(measure.ValueP50), p99, ms(measure.ValueMax),
		ms(measure.ValueDueP50), ms(measure.ValueDueP99), times(measure.ValueP50), times(measure.ValueP99), percent(measure.ValuePostgresShare),
		percent(measure.ValueRelayShare), percent(measure.ValueNATSShare), checked, slow, mark(c))
}

// spread returns a median with the least and the greatest value.
func spread(c *measure.CaseResult, name string) string {
	v := c.Values[name]
	return fmt.Sprintf("%s [%s–%s]", measure.Figure(v.Median), measure.Figure(v.Least), measure.Figure(v.Most))
}

func mark(c *measure.CaseResult) string {
	if c.Disturbed == 0 {
		return ""
	}
	return fmt.Sprintf("  %d of %d rounds disturbed", c.Disturbed, len(c.Samples))
}
