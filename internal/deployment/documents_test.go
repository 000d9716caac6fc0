package deployment_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	heading     = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fence       = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInAnchor = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchorsOf are the places in a document that GitHub makes of its headings.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		anchor := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return anchors
}

var (
	block   = regexp.MustCompile("(?ms)^ *```(?:sh|console)?\n(.*?)^ *```")
	inline  = regexp.MustCompile("`(postrider [^`]+)`")
	command = regexp.MustCompile(`(?:^|&& |\s-- /usr/bin/|worker /usr/bin/)(postrider .*)$`)
)

// What operators are told to type is understood by the program: it gets as far as missing its database.
func TestCommandsOfTheDocuments(t *testing.T) { //nolint:paralleltest // processes run one at a time
	seen := map[string]bool{}
	for _, name := range []string{"runbook", "deployment", "operations", "dead-letters", "replay"} {
		document := "docs/" + name + ".md"
		text := read(t, document)
		var lines []string
		for _, b := range block.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(b[1]) {
				if c := command.FindStringSubmatch(strings.TrimSpace(strings.SplitN(line, "#", 2)[0])); c != nil {
					lines = append(lines, c[1])
				}
			}
		}
		for _, i := range inline.FindAllStringSubmatch(text, -1) {
			lines = append(lines, i[1])
		}
		for _, line := range lines {
			args := words(line)[1:]
			if seen[line] || strings.ContainsAny(line, "…<>|$[") || strings.HasSuffix(line, " N") ||
				len(args) == 0 || slices.Contains([]string{"run", "dev", "version"}, args[0]) {
				continue
			}
			seen[line] = true
			_, stderr, status := postrider(t, nil, args...)
			understood := slices.ContainsFunc([]string{"no database", "expected one of", "healthcheck: "}, func(answer string) bool {
				return strings.Contains(stderr, answer)
			})
			if status != 0 && !understood {
				t.Errorf("%s: %s: %s", document, line, stderr)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d commands were tried: %v", len(seen), seen)
	}
}

// words splits a command as a shell does, as far as these go.
func words(line string) (list []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			list = append(list, part)
		} else {
			list = append(list, strings.Fields(part)...)
		}
	}
	return list
}

// Each link between documents leads to a file that is there, and to a heading of it.
func TestLinksOfTheDocuments(t *testing.T) {
	t.Parallel()
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "tools/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	checked := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			path, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(path, "://") || strings.HasPrefix(path, "mailto:") {
				continue
			}
			checked++
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() && anchor == "" {
				continue
			}
			if err != nil || anchor != "" && !anchorsOf(string(content))[anchor] {
				t.Errorf("%s: nothing is at %s", document, l[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were looked at", checked)
	}
}
