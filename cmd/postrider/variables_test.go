package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// toldTwice are the variables that commands tell of in words of their own, and mean the same by.
var toldTwice = []string{
	"POSTRIDER_ASSIGNMENT", "POSTRIDER_HTTP_ADDR", "POSTRIDER_JSON", "POSTRIDER_LEASE_TTL", "POSTRIDER_ORDERING", "POSTRIDER_PARTITIONS", "POSTRIDER_SUBJECT",
}

// Commands that read one variable mean the same by it: a worker's POSTRIDER_STREAM must not choose what another command shows.
func TestAVariableHasOneMeaning(t *testing.T) {
	t.Parallel()
	meanings := map[string]map[string]string{} // variable → help → a command
	var visit func(node *kong.Node)
	visit = func(node *kong.Node) {
		for _, f := range flagsOf(node) {
			for _, env := range f.Envs {
				if meanings[env] == nil {
					meanings[env] = map[string]string{}
				}
				meanings[env][f.OrigHelp] = node.FullPath()
			}
		}
		for _, child := range node.Children {
			visit(child)
		}
	}
	visit(model(t).Node)
	for env, helps := range meanings {
		if (len(helps) > 1) == slices.Contains(toldTwice, env) {
			continue
		}
		var lines []string
		for help, command := range helps {
			lines = append(lines, command+": "+help)
		}
		slices.Sort(lines)
		t.Errorf("%s is told of in %d ways: %q", env, len(helps), lines)
	}
}
