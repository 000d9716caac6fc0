package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of the house, in lines.
const (
	fileLimit     = 400
	functionLimit = 80
)

const root = "../.."

// sources calls visit for every Go file of the repository.
func sources(t *testing.T, visit func(name string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." || entry.Name() == "testdata" || entry.Name() == "bin") && name != root {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		visit(strings.TrimPrefix(filepath.ToSlash(name), root+"/"), set, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	t.Parallel()
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if lines := set.File(file.Pos()).LineCount(); lines >= fileLimit {
			t.Errorf("%s has %d lines; the limit is %d", name, lines, fileLimit)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; lines >= functionLimit {
				t.Errorf("%s: function %s has %d lines; the limit is %d", name, f.Name.Name, lines, functionLimit)
			}
		}
	})
}

func TestEveryPackageOpensWithItsDoc(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		dir := filepath.Dir(name)
		documented[dir] = documented[dir] || filepath.Base(name) == "doc.go" && file.Doc != nil
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types", "misc"}, file.Name.Name) {
			t.Errorf("%s: a package named %s says nothing", name, file.Name.Name)
		}
		if filepath.Base(name) != "doc.go" || !requiresModel(dir) {
			return
		}
		for _, heading := range []string{"# Model", "# Invariants", "# Failure"} {
			if file.Doc == nil || !strings.Contains(file.Doc.Text(), heading) {
				t.Errorf("%s lacks the heading %q", name, heading)
			}
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc.go with a package comment", dir)
		}
	}
}

// requiresModel leaves test kits and examples free to explain themselves their
// own way.
func requiresModel(dir string) bool {
	return !strings.HasPrefix(dir, "examples") && !strings.HasPrefix(dir, "internal")
}

// Tests wait for signals, not for time.
func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/testkit") && !strings.HasPrefix(name, "tools") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s sleeps", set.Position(n.Pos()))
				}
			}
			return true
		})
	})
}
