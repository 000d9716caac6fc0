package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Way asks a server for one thing: by PostgreSQL's functions that are made for it, or, where a server refuses these to the session's role,
// in another way that costs more. Both keep every promise.
type Way struct {
	// Replace is for Fill: names in statements, each with its text.
	Replace []string
	// Needs are the functions that this way calls; where another way is taken, none.
	Needs []string
	// Instead describes the other way, with the server's refusal; empty: there is none.
	Instead string
}

// The ways of PostgreSQL itself.
var (
	byPositions = Way{
		Needs:   []string{"pg_current_wal_insert_lsn"},
		Replace: []string{"{position}", "pg_current_wal_insert_lsn()::text"},
	}
	byTimelines = Way{
		Needs: []string{"pg_control_system", "pg_walfile_name", "pg_current_wal_insert_lsn"},
		Replace: []string{
			"{database}",
			"(SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)",
		},
	}
)

// Usual returns the ways of a server that refuses nothing.
func Usual() []Way { return []Way{byPositions, byTimelines} }

// WayOfChanges finds a way to see commits since ({position}, a text that is another one then). Without positions of the log two snapshots
// that read alike see the same rows.
func WayOfChanges(ctx context.Context, db DB) (Way, error) {
	denied, err := refuses(ctx, db, `SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END`)
	if denied == nil || err != nil {
		return byPositions, err
	}
	return Way{
		Instead: fmt.Sprintf("snapshots tell of changes (%s)", denied.Message),
		Replace: []string{"{position}", "pg_current_snapshot()::text"},
	}, nil
}

// WayOfIdentity finds a way to identify a database that took another's place ({database}, an expression): by its cluster and timeline, else
// by the start of its server. Then a restart, too, makes workers take partitions anew.
func WayOfIdentity(ctx context.Context, db DB) (Way, error) {
	denied, err := refuses(ctx, db, `SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END FROM pg_control_system()`)
	if denied == nil || err != nil {
		return byTimelines, err
	}
	return Way{
		Instead: fmt.Sprintf("the database is known by its server's start, and each restart has partitions taken anew (%s)", denied.Message),
		Replace: []string{"{database}", "pg_postmaster_start_time()::text"},
	}, nil
}

// Replace returns the texts of all these ways.
func Replace(ways ...Way) (texts []string) {
	for _, w := range ways {
		texts = append(texts, w.Replace...)
	}
	return texts
}

// Needs returns the functions that these ways call, each once.
func Needs(ways ...Way) []string {
	names := []string{}
	for _, w := range ways {
		names = append(names, w.Needs...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// refuses runs a query and returns the server's refusal: the right is missing, the function, or, as Aurora has it, the setting that it wants.
// Anything else is an error.
func refuses(ctx context.Context, db DB, query string) (*pgconn.PgError, error) {
	const (
		privilege = "42501"
		undefined = "42883"
		state     = "55000"
		feature   = "0A000"
		parameter = "22023"
	)
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // within a transaction of the caller a savepoint, so that it survives
		_, err := tx.Exec(ctx, query)
		return err
	})
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains([]string{privilege, undefined, state, feature, parameter}, answer.Code) {
		return answer, nil
	}
	return nil, err
}
