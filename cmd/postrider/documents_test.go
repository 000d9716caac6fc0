package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	codeBlock     = regexp.MustCompile("(?ms)^ *```\\w*\n(.*?)^ *```")
	typedCommand  = regexp.MustCompile(`^(?:\$ )?postrider (.*)$`)
	quotedOrPlain = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)
)

// What the pages' blocks have people type is a command, with arguments and flags that it has.
func TestTheCommandsOfAllPagesAreUnderstood(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line, _, _ = strings.Cut(line, " #")
				typed := typedCommand.FindStringSubmatch(strings.TrimSpace(line))
				if typed == nil || strings.ContainsAny(typed[1], "…<>|$[") {
					continue
				}
				seen++
				var args []string
				for _, word := range quotedOrPlain.FindAllStringSubmatch(typed[1], -1) {
					args = append(args, word[1]+word[2]+word[3])
				}
				parser, err := kong.New(&cli{}, kong.Name("postrider"), kong.Writers(io.Discard, io.Discard))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := parser.Parse(args); err != nil {
					t.Errorf("%s: postrider %s: %v", page, typed[1], err)
				}
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d commands were looked at", seen)
	}
}
