package house_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents are the pages for people, by their paths from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[strings.TrimPrefix(filepath.ToSlash(name), root+"/")] = string(text)
		}
	}
	return pages
}

// CONTRIBUTING.md's table of folders has each of them, and the README leads to each page.
func TestEveryFolderAndPageIsNamed(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	_, layout, found := strings.Cut(pages["CONTRIBUTING.md"], "\n## Layout\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section Layout")
	}
	layout, _, _ = strings.Cut(layout, "\n## ")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && !strings.Contains(layout, "`"+e.Name()+"/") {
			t.Errorf("CONTRIBUTING.md does not say what %s/ holds", e.Name())
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !strings.Contains(pages["README.md"], "("+name+")") {
			t.Errorf("README.md does not lead to %s", name)
		}
	}
}

var (
	fenced    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	sentence  = regexp.MustCompile(`[.!?] |\|`)
	ofTheLog  = regexp.MustCompile(`\b[Ll]ogs?\b`)
	quotation = regexp.MustCompile("`([^`]+)`")
	noRecord  = regexp.MustCompile(`^(--|run |config |postrider |kubectl |ALTER )`)
)

// foreign are words in the log that other programs say.
var foreign = map[string]bool{"permission denied": true, "Authorization Violation": true, "Permissions Violation for …": true}

// What the documents quote from the log is what the program writes there.
func TestQuotedRecordsAreWritten(t *testing.T) {
	t.Parallel()
	var written strings.Builder
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/testkit/") || strings.HasPrefix(name, "tools/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				written.WriteString(l.Value + "\n")
			}
			return true
		})
	})
	program, quoted := written.String(), 0
	for name, page := range documents(t) {
		if name == "CHANGELOG.md" {
			continue // tells of what was
		}
		text := strings.ReplaceAll(fenced.ReplaceAllString(page, ""), "\n", " ")
		for _, one := range sentence.Split(text, -1) {
			if !ofTheLog.MatchString(one) {
				continue
			}
			for _, q := range quotation.FindAllStringSubmatch(one, -1) {
				if !strings.Contains(q[1], " ") || noRecord.MatchString(q[1]) || foreign[q[1]] {
					continue
				}
				quoted++
				record, _, _ := strings.Cut(q[1], "…")
				if !strings.Contains(program, strings.TrimSpace(record)) {
					t.Errorf("%s quotes %q from the log, which nothing writes there", name, q[1])
				}
			}
		}
	}
	if quoted < 8 {
		t.Errorf("only %d quotations were found", quoted)
	}
}
