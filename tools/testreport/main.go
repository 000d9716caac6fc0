package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	totals := flag.String("totals", "", "add the counts to those in this `file`")
	least := flag.Int("least", 0, "fail if fewer than this `number` of tests passed")
	again := flag.Int("again", 0, "run a test that failed so many `times` again, alone")
	sum := flag.Bool("sum", false, "print what is in the file of -totals, the counts last, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, flag.Args(), options{totals: *totals, sum: *sum, least: *least, again: *again})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

type options struct {
	totals string
	sum    bool
	least  int
	again  int
}

func run(ctx context.Context, out io.Writer, arguments []string, o options) error {
	if o.sum {
		all, err := readTotals(o.totals)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s%s\n", all.failures, all.tally)
		return err
	}
	c, err := parse(arguments)
	if err != nil {
		return err
	}
	report := newReport(out)
	if err := c.events(ctx, c.packages, report.read); err != nil {
		return err
	}
	if err := report.again(ctx, c, o.again); err != nil {
		return err
	}
	return report.conclude(o)
}

// conclude sums up, and returns an error unless all is well.
func (r *report) conclude(o options) error {
	counts := r.finish()
	if o.totals != "" {
		if err := addTotals(o.totals, totals{tally: counts, failures: r.failures.String()}); err != nil {
			return err
		}
	}
	switch {
	case counts == (tally{}):
		return errNothing
	case counts.failed > 0:
		return errFailed
	case counts.passed < o.least:
		return fmt.Errorf("%w: %d, expected at least %d", errTooFew, counts.passed, o.least)
	}
	return nil
}

var errUsage = errors.New("want -- go test -json FLAGS... -- PACKAGES")
