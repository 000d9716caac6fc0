package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

// contain has a query run with the rights of the table's owner, and returns a view of what it gave until the transaction ends.
// Casts, triggers and policies are code of the owner's. It could take off a role that was SET, or wait for the COMMIT of whoever runs this;
// PostgreSQL keeps the query of a materialized view from both. Rows that a policy hides make it fail.
func (s *Store) contain(ctx context.Context, tx pgx.Tx, t *table, what, query string) (string, error) {
	view := functionOf(Purpose("adopt_"+what), t.name).quoted()
	for _, sql := range []string{
		"CREATE MATERIALIZED VIEW " + view + " AS " + query + "\nWITH NO DATA",
		"ALTER MATERIALIZED VIEW " + view + " OWNER TO " + t.owner,
		"SET LOCAL row_security = off",
		"REFRESH MATERIALIZED VIEW " + view,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return "", hidden(t, err)
		}
	}
	return view, nil
}

// release drops such views, and functions that they called.
func (s *Store) release(ctx context.Context, tx pgx.Tx, kindsAndNames ...string) error {
	for i := 0; i < len(kindsAndNames); i += 2 {
		if _, err := tx.Exec(ctx, "DROP "+kindsAndNames[i]+" "+kindsAndNames[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// hidden adds the cure where row level security is in the way.
func hidden(t *table, err error) error {
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Routine == "check_enable_rls" {
		return fmt.Errorf("row level security hides rows of %s from its owner, and nothing was changed: ALTER TABLE %s NO FORCE ROW LEVEL SECURITY, "+
			"or give %s BYPASSRLS, for as long as this runs: %w", t, t.quoted(), t.owner, err)
	}
	return explained(t.String(), err)
}

// remove deletes the rows that were appended.
func (s *Store) remove(ctx context.Context, tx pgx.Tx, t *table, test string) error {
	deletion := "DELETE FROM " + t.quoted() + " AS r WHERE " + test
	var own bool
	if err := s.sql.Own.Row(ctx, tx, pg.Args{"table": t.oid}).Scan(&own); err != nil {
		return err
	}
	if own {
		_, err := tx.Exec(ctx, deletion)
		return err
	}
	function := functionOf("adopt_remove", t.name).quoted()
	for _, sql := range []string{
		"CREATE FUNCTION " + function + "() RETURNS boolean LANGUAGE plpgsql AS " + literal("BEGIN\n"+deletion+";\nRETURN true;\nEND"),
		"ALTER FUNCTION " + function + "() OWNER TO " + t.owner,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return explained(t.String(), err)
		}
	}
	view, err := s.contain(ctx, tx, t, "removed", "SELECT "+function+"() AS done")
	if err != nil {
		return err
	}
	return s.release(ctx, tx, "MATERIALIZED VIEW", view, "FUNCTION", function+"()")
}
