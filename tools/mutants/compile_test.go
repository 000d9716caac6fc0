package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// A mutant that the compiler refuses shows here already, as one that does not fit does: each package that it changes
// is checked against the others as they are.
func TestEveryMutantCompiles(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for _, m := range catalogue() {
		changed, err := m.contents(root)
		if err != nil {
			continue // TestEveryMutantFits tells
		}
		folders := map[string]bool{}
		for file := range changed {
			if filepath.Ext(file) == ".go" {
				folders[filepath.Dir(file)] = true
			}
		}
		for folder := range folders {
			if err := c.check(folder, changed); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
}

// checker finds the types of changed packages.
type checker struct {
	root     string
	packages map[string]listed // by folder
	importer types.Importer
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{root: absolute, packages: map[string]listed{}}
	exports := map[string]string{}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir, cmd.Env, cmd.Stderr = absolute, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		c.packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	c.importer = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c
}

// check parses a package with the changes and finds its types.
func (c *checker) check(folder string, changed map[string]string) error {
	p, known := c.packages[filepath.Join(c.root, folder)]
	if !known {
		return fmt.Errorf("%s is no package of the product", folder)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		var text any
		if t, ok := changed[filepath.Join(folder, name)]; ok {
			text = t
		}
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
	}
	conf := types.Config{Importer: c.importer}
	_, err := conf.Check(p.ImportPath, files, parsed, nil)
	return err
}
