package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Whoever looks for help finds it, by any of its names.
func TestHelpIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"help"}, []string{"Usage: postrider", "doctor"}},
		{[]string{"help", "run"}, []string{"Usage: postrider run", "Monitor:", "Failures:", "What is published:"}},
		{[]string{"help", "messages", "list"}, []string{"Usage: postrider messages list"}},
		{[]string{"run", "-h"}, []string{"Usage: postrider run"}},
		{[]string{"-h"}, []string{"Usage: postrider"}},
		{[]string{"--version"}, []string{"postrider "}},
		{[]string{"completion", "bash"}, []string{"complete -o default -F _postrider"}},
		{[]string{"__complete", "--", "doc"}, []string{"doctor\n"}},
		{[]string{"__complete", "--", "messages", "list", "--newest"}, []string{"--newest-first\n"}},
		{[]string{"__complete", "--", "run", "--ordering", "="}, []string{"partition\nstream\n"}},
		{[]string{"__complete", "--", "run", "--ordering=s"}, []string{"--ordering=stream\n"}},
		{[]string{"__complete", "--", "run", "--schema", "run", "--si"}, []string{"--silent\n"}},
	} {
		code, stdout, stderr := call(t, c.args...)
		if code != exitOK {
			t.Errorf("%q ended with %d: %s", c.args, code, stderr)
		}
		for _, text := range c.says {
			if !strings.Contains(stdout, text) {
				t.Errorf("%q does not say %q: %s", c.args, text, stdout)
			}
		}
	}
	if code, _, stderr := call(t, "help", "frobnicate"); code != exitRefused || !strings.Contains(stderr, "frobnicate") {
		t.Errorf("status %d: %s", code, stderr)
	}
	var visit func(node *kong.Node)
	visit = func(node *kong.Node) {
		if node.Hidden {
			return
		}
		for line := range strings.Lines(node.Detail) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
			typed, is := strings.CutPrefix(line, "postrider ")
			if !is || strings.Contains(typed, "…") {
				continue
			}
			var args []string
			for _, word := range quotedOrPlain.FindAllStringSubmatch(typed, -1) {
				if strings.ContainsAny(word[3], "<>|&") { // for the shell
					break
				}
				args = append(args, word[1]+word[2]+word[3])
			}
			parser, err := kong.New(&cli{}, kong.Name("postrider"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(args); err != nil {
				t.Errorf("help of %s: postrider %s: %v", node.FullPath(), typed, err)
			}
		}
		for _, child := range node.Children {
			visit(child)
		}
	}
	visit(model(t).Node)
}
