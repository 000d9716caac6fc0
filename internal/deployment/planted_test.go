package deployment_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// calledNames are the names that stand before a parenthesis anywhere in the program or its SQL: more than its calls.
func calledNames(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2:
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sql"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range called.FindAllSubmatch(text, -1) {
			names[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	return list
}

// signatures lists the functions of pg_catalog with those names.
const signatures = `
SELECT p.proname, ARRAY(SELECT format_type(a, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS u (a, n) ORDER BY n),
       p.provariadic <> 0, format_type(p.prorettype, NULL), p.proretset
  FROM pg_proc AS p
 WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY ($1) AND p.pronargs BETWEEN 1 AND 5
   AND NOT 'internal'::regtype = ANY (p.proargtypes) AND NOT 'cstring'::regtype = ANY (p.proargtypes)
   AND p.prorettype NOT IN ('internal'::regtype, 'cstring'::regtype, 'trigger'::regtype)`

var plainTypes = []string{
	"text", "bigint", "integer", "smallint", "boolean", "uuid", "jsonb", "bytea", "timestamp with time zone", "interval", "oid", "regclass",
	"name", "numeric", "double precision", "\"char\"",
}

// instead are types that an argument may have at the call while the original's parameter has another.
var instead = map[string][]string{
	"name": {"text"}, "bigint": {"integer", "smallint"}, "numeric": {"bigint", "integer"}, "double precision": {"numeric", "bigint", "integer"},
	"oid": {"regclass", "bigint", "integer"}, "regclass": {"text"}, "text": {"name", "character varying"}, "integer": {"smallint"},
	"timestamp with time zone": {"timestamp without time zone"}, "json": {"jsonb"},
}

// plantedSQL makes every overload that could be preferred to the original.
func plantedSQL(t *testing.T, r roles) string {
	t.Helper()
	config, err := pgxpool.ParseConfig(r.own(r.superuser))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), signatures, calledNames(t))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	var sql strings.Builder
	var name, result string
	var arguments []string
	var variadic, set bool
	_, err = pgx.ForEachRow(rows, []any{&name, &arguments, &variadic, &result, &set}, func() error {
		for _, types := range variants(arguments, variadic) {
			head := fmt.Sprintf("%q(%s)", name, strings.Join(types, ", "))
			if made[head] {
				continue
			}
			made[head] = true
			fmt.Fprintf(&sql, "CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS $p$BEGIN RAISE EXCEPTION 'planted overload %s'; END$p$;\n",
				head, returned(result, types, set), head)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(made) < 1000 {
		t.Fatalf("only %d overloads are planted", len(made))
	}
	plantOperators(&sql)
	return sql.String()
}

// variants are the argument types of overloads that match calls more exactly than the original.
func variants(arguments []string, variadic bool) (list [][]string) {
	if variadic {
		fixed := arguments[:len(arguments)-1]
		for _, one := range plainTypes {
			for n := 1; n <= 4; n++ {
				list = append(list, append(slices.Clone(fixed), slices.Repeat([]string{one}, n)...))
				list = append(list, append(slices.Clone(fixed), append([]string{"text"}, slices.Repeat([]string{one}, n)...)...))
			}
		}
		return list
	}
	if slices.ContainsFunc(arguments, polymorphic) {
		for _, one := range plainTypes {
			types := make([]string, len(arguments))
			for i, a := range arguments {
				switch {
				case strings.HasSuffix(a, "array"):
					types[i] = one + "[]"
				case polymorphic(a):
					types[i] = one
				default:
					types[i] = a
				}
			}
			list = append(list, types)
		}
		return list
	}
	list = [][]string{{}}
	for _, a := range arguments {
		var longer [][]string
		for _, begun := range list {
			for _, one := range append([]string{a}, instead[a]...) {
				longer = append(longer, append(slices.Clone(begun), one))
			}
		}
		list = longer
	}
	return list
}

func polymorphic(kind string) bool { return strings.HasPrefix(kind, "any") || kind == `"any"` }

// returned is the result of an overload, of the type that the original would have there.
func returned(result string, types []string, set bool) string {
	switch {
	case strings.HasSuffix(result, "array") && len(types) > 0:
		result = strings.TrimSuffix(types[0], "[]") + "[]"
	case polymorphic(result) && len(types) > 0:
		result = strings.TrimSuffix(types[0], "[]")
	case result == "record":
		result = "text"
	}
	if set {
		return "SETOF " + result
	}
	return result
}

// plantOperators makes the operators of the program's SQL for all pairs of types.
func plantOperators(sql *strings.Builder) {
	kinds := slices.Clone(plainTypes)
	for _, one := range []string{"text", "bigint", "integer", "smallint", "uuid"} {
		kinds = append(kinds, one+"[]")
	}
	for result, operators := range map[string][]string{
		"boolean": {"=", "<>", "<", "<=", ">", ">=", "~"}, "text": {"||", "->>"}, "bigint": {"+", "-", "%"}, "jsonb": {"->"},
	} {
		for _, left := range kinds {
			for _, right := range kinds {
				function := fmt.Sprintf("planted_%s(%s, %s)", result, left, right)
				fmt.Fprintf(sql, "CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS $p$BEGIN RAISE EXCEPTION 'planted overload %s'; END$p$;\n",
					function, result, function)
				for _, operator := range operators {
					fmt.Fprintf(sql, "CREATE OPERATOR %s (FUNCTION = planted_%s, LEFTARG = %s, RIGHTARG = %s);\n", operator, result, left, right)
				}
			}
		}
	}
}
