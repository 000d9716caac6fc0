package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	totals := flag.String("totals", "", "add the counts to those in this `file`")
	least := flag.Int("least", 0, "fail if fewer than this `number` of tests passed")
	sum := flag.Bool("sum", false, "print what is in the file of -totals, the counts last, and end")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, options{totals: *totals, sum: *sum, least: *least}); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

type options struct {
	totals string
	sum    bool
	least  int
}

func run(in io.Reader, out io.Writer, o options) error {
	if o.sum {
		all, err := readTotals(o.totals)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s%s\n", all.failures, all.tally)
		return err
	}
	report := newReport(out)
	if err := report.read(in); err != nil {
		return err
	}
	counts := report.finish()
	if o.totals != "" {
		if err := addTotals(o.totals, totals{tally: counts, failures: report.failures.String()}); err != nil {
			return err
		}
	}
	if counts == (tally{}) {
		return errNothing
	}
	if counts.failed > 0 {
		return errFailed
	}
	if counts.passed < o.least {
		return fmt.Errorf("%w: %d, expected at least %d", errTooFew, counts.passed, o.least)
	}
	return nil
}
