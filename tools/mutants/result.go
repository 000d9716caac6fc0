package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
)

// verdict is the outcome of a mutant.
type verdict string

const (
	caught     verdict = "caught"
	survived   verdict = "SURVIVED"
	uncompiled verdict = "DOES NOT COMPILE"
	timedOut   verdict = "TIMED OUT"
	otherwise  verdict = "FAILED OTHERWISE" // a test fails, but with another complaint
)

// result is a line of the table.
type result struct {
	Name    string  `json:"name"`
	Promise string  `json:"promise"`
	Breaks  string  `json:"breaks"`
	Verdict verdict `json:"verdict"`
	By      string  `json:"by"`  // the test
	How     string  `json:"how"` // its complaint
	Seconds float64 `json:"seconds"`

	output output
}

// judge returns whether, and by which test, the mutant was noticed.
func judge(m mutant, o output) result {
	r := result{Name: m.name, Promise: m.promise, Breaks: m.breaks, By: m.test.run, output: o}
	if len(o.failed) > 0 {
		r.By = o.failed[0]
	}
	complaint, expected := o.complaint(m.says)
	switch {
	case o.build != "":
		r.Verdict, r.How = uncompiled, o.build
	case o.timedOut && m.hangs:
		r.Verdict, r.How = caught, "hangs"
	case o.timedOut:
		r.Verdict = timedOut
	case o.ok:
		r.Verdict = survived
	case m.hangs || !expected:
		r.Verdict = otherwise
		if len(o.complaints) > 0 {
			r.How = o.complaints[0]
		}
	default:
		r.Verdict, r.How = caught, complaint
	}
	return r
}

// tail returns the end of the output of an uncaught mutant.
func (r result) tail() string {
	switch {
	case r.Verdict == caught:
		return ""
	case r.output.build != "":
		return r.output.build
	default:
		return r.output.end()
	}
}

// shown bounds a complaint in the table, in characters.
const shown = 90

var spaces = regexp.MustCompile(`\s+`)

func short(text string) string {
	runes := []rune(strings.TrimSpace(spaces.ReplaceAllString(text, " ")))
	if len(runes) <= shown {
		return string(runes)
	}
	return string(runes[:shown-1]) + "…"
}

func count(results []result) (n int) {
	for _, r := range results {
		if r.Verdict == caught {
			n++
		}
	}
	return n
}

func printTable(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tPROMISE\tBREAKS\tCAUGHT BY\tHOW\tSECONDS")
	for _, r := range results {
		how := short(r.How)
		if r.Verdict != caught {
			how = strings.TrimSpace(string(r.Verdict) + " " + how)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.0f\n", r.Name, r.Promise, r.Breaks, r.By, how, r.Seconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d of %d mutants caught\n", count(results), len(results))
	return err
}

func printJSON(out io.Writer, results []result) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Mutants []result `json:"mutants"`
		Caught  int      `json:"caught"`
		Total   int      `json:"total"`
	}{results, count(results), len(results)})
}

// errSurvivors is returned when a mutant was not caught.
var errSurvivors = errors.New("not caught")

func survivors(results []result) error {
	var names []string
	for _, r := range results {
		if r.Verdict != caught {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errSurvivors, strings.Join(names, ", "))
}
