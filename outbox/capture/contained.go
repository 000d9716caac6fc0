package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

// contain runs a query with the rights of the table's owner, and returns a view of the columns that it gave until the transaction ends.
// Casts, triggers and policies are the owner's code. It could RESET a role that was SET, or wait for this session's COMMIT; PostgreSQL keeps
// the query of a materialized view from both. The view itself is not the owner's: a replacement would be read with this session's rights.
// Rows that a policy hides make it fail.
func (s *Store) contain(ctx context.Context, tx pgx.Tx, t *table, what, query, columns string) (string, error) {
	view, function := functionOf(Purpose("adopt_"+what), t.name).quoted(), functionOf(Purpose("adopt_run_"+what), t.name).quoted()+"()"
	for _, sql := range []string{
		"CREATE FUNCTION " + function + " RETURNS SETOF record LANGUAGE sql SECURITY DEFINER AS " + literal(query),
		"ALTER FUNCTION " + function + " OWNER TO " + t.owner,
		"CREATE MATERIALIZED VIEW " + view + " AS SELECT * FROM " + function + " AS v (" + columns + ")\nWITH NO DATA",
		"SET LOCAL row_security = off",
		"REFRESH MATERIALIZED VIEW " + view,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return "", hidden(t, err)
		}
	}
	var ours bool
	err := tx.QueryRow(ctx, "SELECT c.relkind = 'm' AND pg_get_userbyid(c.relowner) = current_user FROM pg_class AS c WHERE c.oid = to_regclass("+literal(view)+")").Scan(&ours)
	if err == nil && !ours {
		err = refuse("--table: code of the owner of %s put another view in the place of %s", t, view)
	}
	return view, err
}

// release drops such a view.
func (s *Store) release(ctx context.Context, tx pgx.Tx, t *table, what string) error {
	_, err := tx.Exec(ctx, "DROP MATERIALIZED VIEW "+functionOf(Purpose("adopt_"+what), t.name).quoted()+"; DROP FUNCTION "+functionOf(Purpose("adopt_run_"+what), t.name).quoted()+"()")
	return err
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

// remove deletes the appended rows.
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
	if _, err := s.contain(ctx, tx, t, "removed", deletion+" RETURNING true", "done boolean"); err != nil {
		return err
	}
	return s.release(ctx, tx, t, "removed")
}
