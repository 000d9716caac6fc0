package house_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	section  = regexp.MustCompile(`(?m)^-- (query|fragment): (\w+)$`)
	included = regexp.MustCompile(`(?m)^\s*-- include: (\w+)$`)
	comment  = regexp.MustCompile(`(?m)--.*$`)
	argument = regexp.MustCompile(`@([A-Za-z_]\w*)`)
)

// queriesOf are the named queries of a package, with the names of their arguments.
func queriesOf(t *testing.T, dir string) map[string][]string {
	t.Helper()
	texts, queries := map[string]string{}, map[string][]string{}
	for _, pattern := range []string{"sql/*.sql", "sql/*/*.sql"} {
		files, err := filepath.Glob(filepath.Join(root, dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(content)
			for n, at := range section.FindAllStringSubmatchIndex(text, -1) {
				end := len(text)
				if next := section.FindAllStringIndex(text, n+2); len(next) == n+2 {
					end = next[n+1][0]
				}
				texts[text[at[4]:at[5]]] = text[at[1]:end]
				if text[at[2]:at[3]] == "query" {
					queries[text[at[4]:at[5]]] = nil
				}
			}
		}
	}
	for name := range queries {
		text := texts[name]
		for included.MatchString(text) {
			text = included.ReplaceAllStringFunc(text, func(line string) string { return texts[included.FindStringSubmatch(line)[1]] })
		}
		for _, found := range argument.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
			queries[name] = append(queries[name], found[1])
		}
		slices.Sort(queries[name])
		queries[name] = slices.Compact(queries[name])
	}
	return queries
}

// given are the names of the arguments in a call, where they can be read from the code: a literal, a variable that has one
// literal in the function, or nil.
func given(function *ast.FuncDecl, args ast.Expr) (names []string, known bool) {
	if variable, ok := args.(*ast.Ident); ok && variable.Name != "nil" {
		args = nil
		ast.Inspect(function, func(n ast.Node) bool {
			if set, ok := n.(*ast.AssignStmt); ok && len(set.Lhs) == len(set.Rhs) {
				for i, left := range set.Lhs {
					if left, ok := left.(*ast.Ident); ok && left.Name == variable.Name {
						known = args == nil
						args = set.Rhs[i]
					}
				}
			}
			return true
		})
		if !known {
			return nil, false
		}
	}
	literal, ok := args.(*ast.CompositeLit)
	if !ok {
		variable, ok := args.(*ast.Ident)
		return nil, ok && variable.Name == "nil"
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return nil, false
		}
		key, ok := pair.Key.(*ast.BasicLit)
		if !ok {
			return nil, false
		}
		name, err := strconv.Unquote(key.Value)
		if err != nil {
			return nil, false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}

// called are the query of a call and its arguments: those of its own method, or of another function that is given both.
func called(call *ast.CallExpr) (query *ast.SelectorExpr, args ast.Expr) {
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Exec", "Row", "Rows", "Queue"}, method.Sel.Name) {
		query, _ = method.X.(*ast.SelectorExpr)
		return query, call.Args[len(call.Args)-1]
	}
	for i, one := range call.Args[1:] {
		if field, ok := call.Args[i].(*ast.SelectorExpr); ok {
			if of, ok := field.X.(*ast.SelectorExpr); ok && of.Sel.Name == "sql" {
				return field, one
			}
		}
	}
	return nil, nil
}

// A call that gives other arguments than its query names fails when it is made, which for some is seldom.
func TestArgumentsFitTheirQueries(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string][]string{}
	compared := 0
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		dir := filepath.Dir(name)
		if packages[dir] == nil {
			packages[dir] = queriesOf(t, dir)
		}
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || len(packages[dir]) == 0 {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				query, args := called(call)
				if query == nil {
					return true
				}
				want, ok := packages[dir][query.Sel.Name]
				if !ok {
					return true
				}
				if got, known := given(function, args); known {
					compared++
					if !slices.Equal(got, want) {
						t.Errorf("%s: %s is given %s; its text names %s", set.Position(call.Pos()), query.Sel.Name,
							strings.Join(got, ", "), strings.Join(want, ", "))
					}
				}
				return true
			})
		}
	})
	if compared < 220 {
		t.Errorf("%d calls were compared; there are more", compared)
	}
	t.Logf("%d calls were compared", compared)
}
