package inbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// Nothing of the inbox calls a function of a stranger who may create in its schema, nor does one keep it from working. Functions that
// nothing here calls are named.
func TestNothingOfTheInboxCallsAStranger(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	conn, err := pgx.Connect(t.Context(), b.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	names := pgtest.PlantOverloads(t, conn, "inbox_")
	run := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	begin := func(m message.Message, parked *int64) {
		t.Helper()
		run(`SELECT * FROM inbox_begin('test'::text, $1::text, $2::bigint, $3::jsonb, $4::bytea, $5::bigint, false)`,
			m.Subject, int64(m.StreamSequence), headers(t, m), m.Payload, parked)
	}
	first, second, third := onWire(event("s", 1)), onWire(event("s", 2)), onWire(event("s", 3))
	run(`BEGIN`)
	run(`SET LOCAL track_functions = 'all'`)
	begin(first, nil)
	run(`SELECT inbox_done('test'::text, $1::jsonb, 'x'::bytea)`, headers(t, first))
	run(`SELECT inbox_failed('test'::text, $1::text, $2::bigint, $3::jsonb, $4::bytea, 'broken'::text, NULL::bigint, false, false, 8, '1 s'::interval, '5 min'::interval)`,
		second.Subject, int64(second.StreamSequence), headers(t, second), second.Payload)
	begin(third, nil)
	run(`UPDATE inbox_parked SET due_at = clock_timestamp() WHERE due_at IS NOT NULL`)
	var parked int64
	err = conn.QueryRow(t.Context(), `SELECT parked FROM inbox_next('test'::text, $1::uuid, 8, '1 s'::interval, '5 min'::interval)`, uuid.New()).Scan(&parked)
	if err != nil {
		t.Fatal(err)
	}
	begin(second, &parked)
	called := pgtest.Called(t, conn)
	run(`ROLLBACK`)
	for _, name := range names {
		if !slices.Contains(called, name) {
			t.Errorf("nothing here calls %s, beside which strangers stand: call it, with every argument cast", name)
		}
	}
	pgtest.CheckStatements(t, conn, "inbox_", "../internal/house/testdata/statements.sql")
}
