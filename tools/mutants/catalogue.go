package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// catalogue returns all mutants.
func catalogue() []mutant {
	return slices.Concat(watermark(), database(), durability(), ownership(), stream(), singles(), room(), forgotten(), movedServers(), consumers(), client(), failure(), clocks(), neighbourClocks(), crashes(), worker(), replays(), rights(), grants(), appends(), secrets(), captures(), choices(), hosts(), guests(), calls(), monitor(), resizes(), olderDatabase(), operating(), conditions(), neighbours(), connections(), looks(), renewals(), refusedLooks(), rehearsals(), eventParts(), shows(), verifications(), audits())
}

// areas are the parts that mutants break beyond the promises of docs/guarantees.md.
var areas = []string{"append", "calls", "drain", "gaps", "headers", "messages", "metrics", "monitor", "projection", "rehearsal", "replay", "rights", "settings", "show", "tail", "verify"}

// promises returns the promises or areas that the mutant breaks.
func (m mutant) promises() []string { return strings.Split(m.promise, ", ") }

var plainly = strings.NewReplacer("^", "", "$", "")

// printList prints each mutant's promise and the tests that have to notice.
func printList(out io.Writer, mutants []mutant) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tPROMISE\tBREAKS\tTEST")
	for _, m := range mutants {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\n", m.name, m.promise, m.breaks, m.test.pkg, plainly.Replace(m.test.run))
	}
	return table.Flush()
}
