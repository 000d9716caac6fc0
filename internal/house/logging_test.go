package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keysPage lists the keys of the log for those who search it.
const keysPage = "../../docs/logging.md"

// silent are packages whose log nobody operates by.
var silent = []string{"internal/testkit", "internal/house", "internal/faults", "internal/pairs"}

// firstPair is the argument with which the keys and values of a call begin, by the
// function's full name.
var firstPair = map[string]int{
	"(*log/slog.Logger).With": 0, "(*log/slog.Logger).Debug": 1, "(*log/slog.Logger).Info": 1, "(*log/slog.Logger).Warn": 1,
	"(*log/slog.Logger).Error": 1, "(*log/slog.Logger).DebugContext": 2, "(*log/slog.Logger).InfoContext": 2,
	"(*log/slog.Logger).WarnContext": 2, "(*log/slog.Logger).ErrorContext": 2, "(*log/slog.Logger).Log": 3,
	"(*log/slog.Logger).LogAttrs": 3, "(*log/slog.Logger).WithGroup": 0,
}

// attributes are the functions whose first argument is a key.
var attributes = regexp.MustCompile(`^log/slog\.(String|Int|Int64|Uint64|Float64|Bool|Time|Duration|Any|Group|GroupAttrs)$`)

// checkedPackage is a package as the go command lists it.
type checkedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// compiled lists our packages and everything they import, with the compiler's
// export data.
func compiled(t *testing.T) (ours []checkedPackage, exports map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	exports = map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p checkedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return ours, exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name != p.ImportPath && !slices.ContainsFunc(silent, func(s string) bool { return within(name, s) }) {
			ours = append(ours, p)
		}
	}
}

// logCalls looks for log calls in one package.
type logCalls struct {
	files *token.FileSet
	info  types.Info
	keys  map[string]token.Position
	wrong []string
}

func (l *logCalls) check(p checkedPackage, from types.Importer) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	l.info = types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	config := types.Config{Importer: from}
	if _, err := config.Check(p.ImportPath, l.files, files, &l.info); err != nil {
		return err
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				l.call(n)
			case *ast.CompositeLit:
				if l.isAttr(n) {
					l.complain(n, "makes an attribute without slog's functions")
				}
			}
			return true
		})
	}
	return nil
}

func (l *logCalls) complain(at ast.Node, format string, args ...any) {
	l.wrong = append(l.wrong, l.files.Position(at.Pos()).String()+" "+fmt.Sprintf(format, args...))
}

// call notes the keys of one call.
func (l *logCalls) call(c *ast.CallExpr) {
	selector, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	function, ok := l.info.Uses[selector.Sel].(*types.Func)
	if !ok {
		return
	}
	name := function.FullName()
	if attributes.MatchString(name) {
		l.key(c.Args[0])
		return
	}
	first, logs := firstPair[name]
	if !logs {
		return
	}
	if strings.HasSuffix(name, ".LogAttrs") && c.Ellipsis.IsValid() {
		return // attributes are made by the functions above
	}
	if c.Ellipsis.IsValid() {
		l.complain(c, "passes keys on that cannot be seen here")
		return
	}
	for i := first; i < len(c.Args); i++ {
		if l.isAttr(c.Args[i]) {
			continue // its function's call is looked at by itself
		}
		l.key(c.Args[i])
		i++
	}
}

func (l *logCalls) isAttr(e ast.Expr) bool {
	t := l.info.Types[e].Type
	return t != nil && t.String() == "log/slog.Attr"
}

func (l *logCalls) key(e ast.Expr) {
	value := l.info.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		l.complain(e, "has a key that is no constant")
		return
	}
	key := constant.StringVal(value)
	if _, known := l.keys[key]; !known {
		l.keys[key] = l.files.Position(e.Pos())
	}
}

// documentedKeys are those of one row: some belong together.
var documentedKeys = regexp.MustCompile("(?m)^\\| (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*) \\|")

// Who searches a log needs to know its keys: they are constants, and all of them
// are listed.
func TestTheKeysOfTheLogAreListed(t *testing.T) {
	t.Parallel()
	ours, exports := compiled(t)
	calls := logCalls{files: token.NewFileSet(), keys: map[string]token.Position{}}
	from := importer.ForCompiler(calls.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range ours {
		if err := calls.check(p, from); err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
	}
	for _, w := range calls.wrong {
		t.Error(w)
	}
	page, err := os.ReadFile(keysPage)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	_, table, _ := strings.Cut(string(page), "\n## Keys\n")
	for _, row := range documentedKeys.FindAllStringSubmatch(table, -1) {
		for key := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			if listed[key] {
				t.Errorf("%s lists %s twice", keysPage, key)
			}
			listed[key] = true
		}
	}
	for key, at := range calls.keys {
		if !listed[key] {
			t.Errorf("%s: %s does not list the key %q", at, keysPage, key)
		}
	}
	for key := range listed {
		if _, used := calls.keys[key]; !used {
			t.Errorf("%s lists %q, which no call uses", keysPage, key)
		}
	}
	if len(calls.keys) < 20 {
		t.Errorf("only %d keys were found", len(calls.keys))
	}
}
