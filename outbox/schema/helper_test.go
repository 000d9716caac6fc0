package schema_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// refused demands that a statement fails with that SQLSTATE.
func refused(t *testing.T, conn *pgx.Conn, sql, code string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != code {
		t.Errorf("%s: %v, want SQLSTATE %s", sql, err, code)
	}
}

// cleanUp works in a cleanup, when the test's context has ended.
func cleanUp(t *testing.T, url string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
}
