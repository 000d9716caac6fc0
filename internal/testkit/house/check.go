package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	mostFileLines     = 400
	mostFunctionLines = 80
)

var (
	// emptyNames say nothing about what a package is for.
	emptyNames = []string{"base", "common", "helper", "helpers", "misc", "shared", "tools", "types", "util", "utils"}
	// unfinished and machinePath are written so that they do not find themselves.
	unfinished  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.])/(work/(main|shared)|root/|home/[a-z])`)
	// textFile are the names of files that people write.
	textFile = regexp.MustCompile(`(\.(go|sql|md|sh|js|mjs|css|html|gohtml|tmpl|ya?ml|toml|json)|Makefile|Dockerfile|/run)$`)
)

// check returns the broken rules of the files below root, sorted by file.
func check(root string, files []string) ([]string, error) {
	slices.Sort(files)
	documented := map[string]bool{}
	packages := map[string]bool{}
	var broken []string
	for _, name := range files {
		if !textFile.MatchString("/" + name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		broken = append(broken, checkText(name, content)...)
		if filepath.Ext(name) != ".go" {
			continue
		}
		lines, err := checkGo(name, content)
		if err != nil {
			return nil, err
		}
		broken = append(broken, lines...)
		dir := filepath.Dir(name)
		if !strings.HasSuffix(name, "_test.go") {
			packages[dir] = true
		}
		if filepath.Base(name) == "doc.go" {
			documented[dir] = true
		}
	}
	for dir := range packages {
		if !documented[dir] {
			broken = append(broken, dir+": no doc.go")
		}
	}
	slices.Sort(broken)
	return broken, nil
}

// checkText looks for what no file should hold.
func checkText(name string, content []byte) []string {
	var broken []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if unfinished.Match(line) {
			broken = append(broken, fmt.Sprintf("%s:%d: left to do", name, number))
		}
		if machinePath.Match(line) {
			broken = append(broken, fmt.Sprintf("%s:%d: path of a machine", name, number))
		}
	}
	if filepath.Ext(name) == ".go" && number > mostFileLines {
		broken = append(broken, fmt.Sprintf("%s: %d lines, at most %d", name, number, mostFileLines))
	}
	return broken
}

// checkGo looks at one parsed file.
func checkGo(name string, content []byte) ([]string, error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, content, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var broken []string
	if slices.Contains(emptyNames, strings.TrimSuffix(file.Name.Name, "_test")) {
		broken = append(broken, fmt.Sprintf("%s: package %s has a name that says nothing", name, file.Name.Name))
	}
	if filepath.Base(name) == "doc.go" && file.Doc.Text() == "" {
		broken = append(broken, name+": no package comment")
	}
	if strings.HasSuffix(name, "_test.go") {
		return broken, nil
	}
	broken = append(broken, checkImports(name, file)...)
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := positions.Position(function.Pos()).Line, positions.Position(function.End()).Line
		if length := last - first + 1; length > mostFunctionLines {
			broken = append(broken, fmt.Sprintf("%s:%d: %s has %d lines, at most %d",
				name, first, function.Name.Name, length, mostFunctionLines))
		}
	}
	return broken, nil
}

// checkImports keeps test code out of programs. Test kits are internal/testkit and packages named …test.
func checkImports(name string, file *ast.File) []string {
	if strings.Contains(name, "internal/testkit/") || strings.HasSuffix(file.Name.Name, "test") {
		return nil
	}
	var broken []string
	for _, imported := range file.Imports {
		path := strings.Trim(imported.Path.Value, `"`)
		if path == "testing" || strings.HasPrefix(path, "testing/") || strings.Contains(path, "/internal/testkit") {
			broken = append(broken, fmt.Sprintf("%s: imports %s outside of tests", name, path))
		}
	}
	return broken
}
