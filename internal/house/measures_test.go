package house_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// mostFiles is how many source files a package may have: what is more falls into rooms.
const mostFiles = 16

// largePackages are the exceptions, with the number of files that they may have. They only ever become smaller.
var largePackages = map[string]int{
	"cmd/postrider":       54, // one file a command
	"delivery/ops":        26,
	"inbox":               21,
	"ui/pages":            20, // one file a page
	"tools/bench/measure": 27,
	"tools/mutants":       20, // one file for each part of the product
}

// mostImports is how many of our packages one may import. Who puts the program together needs more.
const mostImports = 8

var wideImports = map[string]int{"cmd/postrider": 34, "worker": 22, "ui": 10, "tools/bench/measure": 11}

// The limits of the whole: what there is may be less tomorrow, and not more.
const (
	mostLines      = 71_583 // Go of the root module without tests; aim 45,000
	mostStatements = 35     // files of statements
	mostWords      = 34_831 // in Markdown
	mostOnPage     = 2_530  // on one page of it
	mostSuppressed = 229    // lines that silence a linter
)

// measures are counted over the tree. `make house` prints them.
type measures struct {
	lines, outside, tests, statements, words, suppressed int
	packages                                             map[string]*packageMeasures
	pages                                                map[string]int // of Markdown, with their words
}

type packageMeasures struct {
	files, lines, exported int
	imports                map[string]bool
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	m := measure(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "package\tfiles\tlines\texported\timports of ours")
	for _, name := range slices.Sorted(keysOf(m.packages)) {
		p := m.packages[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", name, p.files, p.lines, p.exported, len(p.imports))
		if most := max(mostFiles, largePackages[name]); p.files > most {
			t.Errorf("package %s has %d source files; the limit is %d", name, p.files, most)
		}
		if most := max(mostImports, wideImports[name]); len(p.imports) > most {
			t.Errorf("package %s imports %d packages of ours; the limit is %d", name, len(p.imports), most)
		}
		if listed := largePackages[name]; listed > p.files {
			t.Errorf("package %s has %d source files: the list of exceptions may say so, not %d", name, p.files, listed)
		}
	}
	fmt.Fprintf(w, "\nlines of Go without tests\t%d\nthose of tools and examples\t%d\nlines of tests\t%d\nfiles of statements\t%d\nwords of Markdown\t%d\nsuppressions of linters\t%d\n",
		m.lines, m.outside, m.tests, m.statements, m.words, m.suppressed)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the house:\n%s", table.String())
	for page, words := range m.pages {
		if words > mostOnPage {
			t.Errorf("%s has %d words; the limit is %d", page, words, mostOnPage)
		}
	}
	for what, n := range map[string][2]int{
		"lines of Go without tests": {m.lines, mostLines}, "files of statements": {m.statements, mostStatements},
		"words of Markdown": {m.words, mostWords}, "suppressions of linters": {m.suppressed, mostSuppressed},
	} {
		if n[0] > n[1] {
			t.Errorf("there are %d %s; the limit is %d", n[0], what, n[1])
		}
	}
}

func keysOf(m map[string]*packageMeasures) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func measure(t *testing.T) measures {
	t.Helper()
	m := measures{packages: map[string]*packageMeasures{}, pages: map[string]int{}}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		lines := set.File(file.Pos()).LineCount() - 1
		if strings.HasSuffix(name, "_test.go") {
			m.tests += lines
			return
		}
		if strings.HasPrefix(name, "tools/") || strings.HasPrefix(name, "examples/") {
			m.outside += lines
		} else {
			m.lines += lines
		}
		p := m.packages[filepath.Dir(name)]
		if p == nil {
			p = &packageMeasures{imports: map[string]bool{}}
			m.packages[filepath.Dir(name)] = p
		}
		p.files++
		p.lines += lines
		p.exported += exportedIn(file)
		for _, i := range file.Imports {
			if ours, is := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/"); is {
				p.imports[ours] = true
			}
		}
	})
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(name) == ".sql":
			if rel := filepath.ToSlash(name); strings.Contains(rel, "/sql/") && !strings.Contains(rel, "/deploy/") { // neither migrations nor roles
				m.statements++
			}
		case filepath.Ext(name) == ".md" || filepath.Ext(name) == ".go":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if filepath.Ext(name) == ".md" {
				m.pages[name] = len(bytes.Fields(text))
				m.words += m.pages[name]
			} else {
				m.suppressed += len(suppression.FindAll(text, -1))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var suppression = regexp.MustCompile(`//nolint:`)

// exportedIn counts the exported functions, types and methods of a file.
func exportedIn(file *ast.File) (n int) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, is := s.(*ast.TypeSpec); is && s.Name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}
