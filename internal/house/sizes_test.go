package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
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

// Statements are data of their own, none below a package that does not own the
// table. A file of named queries is left out: pg.Fill refuses what has no field.
func TestEveryStatementFileIsUsed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "*", "sql", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no statement files found: %v", err)
	}
	for _, name := range files {
		if strings.HasPrefix(name, filepath.Join(root, "deploy")+string(filepath.Separator)) {
			continue // for people, with psql; internal/deployment runs them
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(content), "-- query: ") {
			continue
		}
		statement := strings.TrimSuffix(filepath.Base(name), ".sql")
		used := false
		sourceFiles, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(name)), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sourceFiles {
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			used = used || strings.Contains(string(text), `"`+statement+`"`)
		}
		if !used {
			t.Errorf("%s is not used by its package", strings.TrimPrefix(name, root+"/"))
		}
	}
}
