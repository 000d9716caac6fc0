package house_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pg"
)

var update = flag.Bool("update", false, "write testdata/statements.sql anew")

// replaced is what stands for the names that packages replace beside the schema: an events relation that has every column. A server that
// refuses nothing adds its ways.
var replaced = []string{
	"{events}", `"public"."events"`, "{safe}", "postrider.safe", "{topic}", "e.topic", "{later_topic}", "l.topic", "{routing_key}", "e.routing_key", "{payload}", "e.payload", "{metadata}", "e.metadata",
	"{audit_only}", "coalesce(e.audit_only, false)", "{later_audit_only}", "coalesce(l.audit_only, false)", "{occurred_at}", "e.occurred_at",
}

var notReplaced = regexp.MustCompile(`[^']\{[a-z_]+\}`) // what is quoted is an array

// filled is a call of pg.Fill: whose statements, and from where.
type filled struct{ dir, pattern, owner string }

// fillings are all calls of pg.Fill in the product.
func fillings(t *testing.T) []filled {
	t.Helper()
	var calls []filled
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 5 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Fill" {
				return true
			}
			if from, ok := method.X.(*ast.Ident); !ok || from.Name != "pg" {
				return true
			}
			one := filled{dir: filepath.Dir(name)}
			for i, into := range []*string{&one.pattern, &one.owner} {
				literal, ok := call.Args[i+1].(*ast.BasicLit)
				if !ok {
					t.Fatalf("%s: pg.Fill is given more than literals for pattern and owner", set.Position(call.Pos()))
				}
				var err error
				if *into, err = strconv.Unquote(literal.Value); err != nil {
					t.Fatal(err)
				}
			}
			calls = append(calls, one)
			return true
		})
	})
	slices.SortFunc(calls, func(a, b filled) int { return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.pattern, b.pattern)) })
	return calls
}

// Statements are data of their own, none below a package that does not own the
// table. That every query has a field is seen to by pg.Fill.
func TestEveryStatementFileIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, c := range fillings(t) {
		names, err := filepath.Glob(filepath.Join(root, c.dir, c.pattern))
		if err != nil || len(names) == 0 {
			t.Errorf("%s: pg.Fill is given %s, of which there is nothing: %v", c.dir, c.pattern, err)
		}
		for _, name := range names {
			used[name] = true
		}
	}
	found := 0
	for _, pattern := range []string{"*/sql/*.sql", "*/sql/*/*.sql", "*/*/sql/*.sql", "*/*/sql/*/*.sql", "*/*/*/sql/*.sql"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, filepath.Join(root, "deploy")+string(filepath.Separator)) {
				continue // for people, with psql; internal/deployment runs them
			}
			if found++; !used[name] {
				t.Errorf("%s is not used by its package", strings.TrimPrefix(name, root+"/"))
			}
		}
	}
	if found < 25 {
		t.Errorf("%d statement files were found; there are more", found)
	}
}

// What runs can be read in one place, and a change of what is sent is seen as such.
func TestStatementsReadAsTheyAreSent(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	fmt.Fprint(&all, "-- Every statement as it is sent, by package and file; `make sql` writes this. The files of each package say why.\n")
	for _, c := range fillings(t) {
		queries, err := pg.All(os.DirFS(filepath.Join(root, c.dir)), c.pattern, c.owner, "public", append(pg.Replace(pg.Usual()...), replaced...)...)
		if err != nil {
			t.Fatalf("%s: %v", c.dir, err)
		}
		fmt.Fprintf(&all, "\n-- %s/%s\n", c.dir, c.pattern)
		for _, q := range queries {
			if left := notReplaced.FindString(q.Text); left != "" {
				t.Errorf("%s: nothing stands for %s: name it in this test", c.dir, left)
			}
			if strings.Contains(q.Text, "set_config('statement_timeout', '0'") && !strings.Contains(q.Text, "set_config('transaction_timeout', '0'") {
				t.Errorf("%s: where no statement is ended for its time, PostgreSQL 17 ends its transaction: %s", c.dir, q.Text)
			}
			fmt.Fprintf(&all, "\n%s;\n", q.Text)
		}
	}
	const golden = "testdata/statements.sql"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != all.String() {
		t.Errorf("what is sent is not what %s says: see `make sql` and git diff", golden)
	}
}

// What a statement sets for its session stays there when a pooler hands that to others.
func TestNoStatementSetsForTheSession(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`(?m)^/\* (\S+) \*/ (SET|RESET) (\S+)`)
	for _, m := range begins.FindAllStringSubmatch(string(text), -1) {
		if m[2] == "RESET" || m[3] != "LOCAL" {
			t.Errorf("%s is %s %s", m[1], m[2], m[3])
		}
	}
}
