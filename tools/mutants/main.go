package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/postrider/postrider/internal/testkit/part"
)

// product is the folder of the broken module, relative to this one's.
const product = ".."

func main() {
	only := flag.String("run", "", "try only the mutants whose names match this `regexp`")
	rows := flag.Int("stress", 0, "try the watermark's mutants alone, under the stress of this many `rows` (25000 or more)")
	asJSON := flag.Bool("json", false, "print JSON")
	passed := flag.Bool("passed", false, "make test has just passed: what it runs is not run without mutants first")
	list := flag.Bool("list", false, "print the mutants, and try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only, *rows, *asJSON, *list, *passed)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, rows int, asJSON, list, passed bool) (err error) {
	all := catalogue()
	if rows > 0 {
		all = underStress(rows)
	}
	selected, err := choose(all, only)
	if err != nil {
		return err
	}
	if list {
		return printList(os.Stdout, selected)
	}
	lab, err := newLab(ctx, product, os.Stderr)
	if err != nil {
		return err
	}
	defer func() {
		if e := lab.close(); err == nil {
			err = e
		}
	}()
	lab.passed = passed
	results, err := lab.tryAll(ctx, selected)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(os.Stdout, results)
	} else {
		err = printTable(os.Stdout, results)
	}
	if err != nil {
		return err
	}
	return survivors(results)
}

// choose returns the mutants whose names match, of the part that the environment requests.
func choose(all []mutant, only string) ([]mutant, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var selected []mutant
	for _, m := range all {
		if pattern.MatchString(m.name) && part.Has(m.name) {
			selected = append(selected, m)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("-run: no mutant of %s has a name that matches %q", cmp.Or(os.Getenv(part.Variable), "all"), only)
	}
	return selected, nil
}
