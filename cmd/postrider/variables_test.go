package main

import (
	"regexp"
	"slices"
	"strings"
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

// goName is a name as programs write it; others are the names of products.
var (
	goName   = regexp.MustCompile(`\b[A-Z]+[a-z]+[A-Z]\w*|\b[A-Z]\w*\.[A-Z]\w*|\b[A-Z]\w* \(--|\bTTL\b|configuration: |config: |\bui: `)
	noGoName = regexp.MustCompile(`PostgreSQL|JetStream|CloudEvents`)
)

// Whatever value is refused, the text names the flag and no field of a program's configuration.
func TestRefusalsNameFlags(t *testing.T) {
	t.Parallel()
	const database = "--database-url=postgres://u@127.0.0.1:1/x"
	values := map[string][]string{
		"int": {"-1", "0", "1", "2147483647"}, "int64": {"-1", "0"}, "float64": {"-1", "0"},
		"time.Duration": {"-1s", "0s", "1ns", "9999h"}, "string": {"", "a b", "x:y:z", "/>"},
	}
	refused := 0
	for _, command := range []string{"run", "dev", "monitor", "migrate up", "migrate print", "status", "doctor", "partitions list", "tail", "gaps detect", "replay", "asyncapi"} {
		node := model(t).Node
		for name := range strings.FieldsSeq(command) {
			i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
			node = node.Children[i]
		}
		for _, f := range flagsOf(node) {
			for _, value := range values[f.Target.Type().String()] {
				args := strings.Fields(command)
				switch {
				case command == "dev" && (f.Group == nil || f.Group.Key != "retry"), slices.Contains([]string{"config", "database-url", "otel-endpoint"}, f.Name):
					continue // what it takes starts servers; these are read before all others
				case command == "dev":
					args = append(args, "--rate=-1")
				case command != "migrate print":
					args = append(args, database, "--nats-url=nats://127.0.0.1:1")
				}
				code, _, said := call(t, append(args, "--"+f.Name+"="+value)...)
				if code == exitRefused {
					refused++
				}
				text := noGoName.ReplaceAllString(strings.ReplaceAll(said, value, ""), "")
				if line := goName.FindString(text); line != "" || code == exitRefused && !strings.Contains(said, "--") {
					t.Errorf("%s --%s=%q: %q in %s", command, f.Name, value, line, said)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("%d values were refused", refused)
	}
}
