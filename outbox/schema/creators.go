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

// Creator is a role that may create objects in the outbox's schema, without need. Its function of our name with other arguments runs, or is
// in the way, where a producer leaves types open, like one in psql. Our own calls leave none open.
type Creator struct {
	// Role is its name, or PUBLIC.
	Role string
	// Cure is the statement that takes the right away.
	Cure string
}

// String returns role and cure in one line.
func (c Creator) String() string {
	return fmt.Sprintf("%s may create objects in the outbox's schema; to mend it: %s", c.Role, c.Cure)
}

// Creators lists the roles that may create in a migrated schema, but for superusers and its tables' owner's members. It needs no right.
func Creators(ctx context.Context, db pg.DB, schema string) ([]Creator, error) {
	return creators(ctx, db, schema, "who may create", func(q *queries) pg.Query { return q.Creators })
}

// Strangers lists the owners of functions beside those of a migrated outbox, under their names, with the statements that drop them. A call
// that leaves types open may mean one of them, and one whose further arguments have defaults fails each call. It needs no right.
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
