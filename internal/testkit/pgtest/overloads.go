package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// planter owns what PlantOverloads makes, caller may run all but that. All databases of a server share them.
const (
	planter = "postrider_test_planter"
	caller  = "postrider_test_caller"
)

// PlantOverloads puts functions of a stranger beside every function of schema public whose name begins so: each argument as text, int
// or polymorphic, alone or all of them, as an array, and each list of arguments that leaves defaults out. One that runs fails, naming
// itself; nobody else may run them. It returns the names of the functions.
func PlantOverloads(t testing.TB, conn *pgx.Conn, prefix string) []string {
	t.Helper()
	ctx := t.Context()
	createRole(t, conn, planter)
	createRole(t, conn, caller)
	if _, err := conn.Exec(ctx, `GRANT USAGE, CREATE ON SCHEMA public TO `+planter); err != nil {
		t.Fatal(err)
	}
	type function struct {
		Name     string
		Types    []string
		Defaults int
	}
	rows, err := conn.Query(ctx, `SELECT p.proname::text, ARRAY(SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, n) ORDER BY a.n),
		p.pronargdefaults FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, $1) AND p.prorettype <> 'trigger'::regtype`, prefix)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[function])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name)
		for _, types := range strangers(f.Types, f.Defaults) {
			signature := fmt.Sprintf("public.%s(%s)", f.Name, strings.Join(types, ", "))
			_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE FUNCTION %s RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'planted %s ran'; END$$`, signature, signature))
			var answer *pgconn.PgError
			if errors.As(err, &answer) && answer.Code == "42723" { // one of ours
				continue
			}
			if err == nil {
				_, err = conn.Exec(ctx, `ALTER FUNCTION `+signature+` OWNER TO `+planter)
			}
			if err == nil {
				_, err = conn.Exec(ctx, `REVOKE ALL ON FUNCTION `+signature+` FROM PUBLIC`)
			}
			if err != nil {
				t.Fatalf("pgtest: plant %s: %v", signature, err)
			}
		}
	}
	return names
}

// strangers returns lists of arguments that could be taken for those given.
func strangers(types []string, defaults int) (lists [][]string) {
	add := func(list []string) {
		if len(list) > 0 && !slices.ContainsFunc(lists, func(known []string) bool { return slices.Equal(known, list) }) {
			lists = append(lists, list)
		}
	}
	for _, other := range []string{"text", "integer", "bigint", "anyelement"} {
		add(slices.Repeat([]string{other}, len(types)))
		for at := range types {
			list := slices.Clone(types)
			list[at] = other
			add(list)
		}
	}
	for shorter := len(types) - defaults; shorter < len(types); shorter++ {
		add(slices.Clone(types[:shorter]))
	}
	add([]string{"VARIADIC text[]"})
	add([]string{"VARIADIC anyarray"})
	for at := range types {
		add(append(slices.Clone(types[:at]), "VARIADIC "+array(types[at])))
	}
	return lists
}

func array(of string) string {
	if strings.HasSuffix(of, "[]") {
		return "anyarray"
	}
	return of + "[]"
}

// createRole makes a role that others may be making right now.
func createRole(t testing.TB, conn *pgx.Conn, name string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), fmt.Sprintf(`DO $$BEGIN CREATE ROLE %s; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END$$`, name))
	if err != nil {
		t.Fatalf("pgtest: create a role: %v", err)
	}
}

// Called returns the functions that the transaction has called so far, if it set track_functions to all; those put in line are not counted.
func Called(t testing.TB, conn *pgx.Conn) (names []string) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT coalesce(array_agg(DISTINCT funcname::text), '{}') FROM pg_stat_xact_user_functions`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// CheckStatements makes the server plan the statements of the file that call a function whose name begins so. Its role may run ours and no
// planted one; the file names schema "public".
func CheckStatements(t testing.TB, conn *pgx.Conn, prefix, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, statement := range []string{
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ` + caller, `GRANT USAGE ON SCHEMA public TO ` + caller,
		`DO $$DECLARE f regprocedure; BEGIN
		FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND pg_get_userbyid(proowner) <> '` + planter + `' LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ` + caller + `', f);
		END LOOP; END$$`,
		`SET search_path = pg_catalog, pg_temp`, `SET plan_cache_mode = force_generic_plan`, `SET ROLE ` + caller,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("pgtest: %s: %v", statement, err)
		}
	}
	calls := regexp.MustCompile(`"public"\.` + prefix + `[a-z_0-9]+\(`)
	found := 0
	for statement := range strings.SplitSeq(string(text), ";\n") {
		statement = statement[max(0, strings.Index(statement, "/* ")):]
		if !calls.MatchString(statement) {
			continue
		}
		found++
		if err := plan(ctx, conn, statement); err != nil {
			name, _, _ := strings.Cut(statement, "*/")
			t.Errorf("%s: %v: cast every argument of what it calls", name, err)
		}
	}
	if found == 0 {
		t.Errorf("%s has no statement that calls %s", file, prefix)
	}
}

// plan makes the server resolve a statement's functions, and check the session's right to run them.
func plan(ctx context.Context, conn *pgx.Conn, statement string) error {
	prepared, err := conn.Prepare(ctx, "", statement)
	if err != nil {
		return err
	}
	nothing := ""
	if n := len(prepared.ParamOIDs); n > 0 {
		nothing = "(" + strings.Repeat("NULL, ", n-1) + "NULL)"
	}
	if _, err := conn.Exec(ctx, "PREPARE planned AS "+statement); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "EXPLAIN EXECUTE planned"+nothing)
	_, end := conn.Exec(ctx, "DEALLOCATE planned")
	return errors.Join(err, end)
}
