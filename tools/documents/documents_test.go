package documents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

const root = "../.."

// pages are all Markdown files by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			list = append(list, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// bars are the texts of a page, outside of code, that hold a bar: a table that is broken off shows them.
func bars(page []byte) (found []string) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM))
	tree := markdown.Parser().Parse(text.NewReader(page))
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.CodeSpan:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			if value := string(n.Value(page)); strings.Contains(value, "|") {
				found = append(found, value)
			}
		}
		return ast.WalkContinue, nil
	})
	return found
}

func TestTablesRenderAsTables(t *testing.T) {
	t.Parallel()
	list := pages(t)
	if len(list) < 60 {
		t.Fatalf("only %d pages were found", len(list))
	}
	for _, name := range list {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range bars(page) {
			t.Errorf("%s shows a bar outside of a table: %q", name, text)
		}
	}
}

func TestABrokenTableIsFound(t *testing.T) {
	t.Parallel()
	whole := "| Term | Means |\n|---|---|\n| lease | a right `a|b` |\n| epoch | a number |\n"
	if got := bars([]byte(whole)); len(got) > 0 {
		t.Errorf("a whole table shows %q", got)
	}
	if got := bars([]byte(strings.Replace(whole, "| epoch", "\n| epoch", 1))); len(got) == 0 {
		t.Error("a blank line within a table is not found")
	}
}
