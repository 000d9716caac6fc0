package schema

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var statements embed.FS

type queries struct{ Creators, Strangers, Living, SetPlaces, SetControlPrefix pg.Query }

func newQueries(schema string) (q queries, err error) {
	err = pg.Fill(statements, "sql/*.sql", "schema", schema, &q)
	return q, err
}

// Creator is a role that may create objects in the outbox's schema, and need not: a function of the name and with other arguments than
// one of ours is called, or is in the way, where a producer leaves types open, as one in psql does. Our own calls leave none open.
type Creator struct {
	// Role is its name, or PUBLIC.
	Role string
	// Cure is the statement that takes the right away.
	Cure string
}

// String says it in one line.
func (c Creator) String() string {
	return fmt.Sprintf("%s may create objects in the outbox's schema; to mend it: %s", c.Role, c.Cure)
}

// Creators lists who may create in a migrated schema besides superusers and those who may act as its tables' owner. It needs no right.
func Creators(ctx context.Context, db pg.DB, schema string) ([]Creator, error) {
	return creators(ctx, db, schema, "who may create", func(q *queries) pg.Query { return q.Creators })
}

// Strangers lists who has put functions beside those of a migrated outbox, under names of these, with the statements that drop them. A
// call that leaves types open may mean one of them, and with further arguments that have defaults each call is refused. It needs no right.
func Strangers(ctx context.Context, db pg.DB, schema string) ([]Creator, error) {
	return creators(ctx, db, schema, "strangers' functions", func(q *queries) pg.Query { return q.Strangers })
}

func creators(ctx context.Context, db pg.DB, schema, what string, of func(*queries) pg.Query) ([]Creator, error) {
	q, err := newQueries(schema)
	if err != nil {
		return nil, err
	}
	found, err := pg.Collect(ctx, db, of(&q), pg.Args{"schema": schema}, pgx.RowToStructByPos[Creator])
	if err != nil {
		return nil, fmt.Errorf("%s in schema %s: %w", what, schema, err)
	}
	return found, nil
}
