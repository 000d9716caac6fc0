package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	totals := flag.String("totals", "", "add the counts to those in this `file`")
	sum := flag.Bool("sum", false, "print the counts in the file of -totals and end")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *totals, *sum); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, totals string, sum bool) error {
	if sum {
		counts, err := readTotals(totals)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, counts)
		return err
	}
	report := newReport(out)
	if err := report.read(in); err != nil {
		return err
	}
	counts := report.finish()
	if totals != "" {
		if err := addTotals(totals, counts); err != nil {
			return err
		}
	}
	if counts == (tally{}) {
		return errNothing
	}
	if counts.failed > 0 {
		return errFailed
	}
	return nil
}
