package inbox

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// DefaultSchema is the schema of an empty Config.
const DefaultSchema = "public"

// Migrate creates the inbox tables in the schema, or brings them up to date; it may be called at every start, and by any
// number of processes at once. The database may be another than the outbox's. Everything happens in one transaction. It
// returns ErrNewer when a newer program migrated the schema.
func Migrate(ctx context.Context, db DB, schema string) error {
	schema = cmp.Or(schema, DefaultSchema)
	if err := pg.CheckSchema(schema); err != nil {
		return fmt.Errorf("inbox: migrate: %w", err)
	}
	list, err := loadMigrations()
	if err != nil {
		return fmt.Errorf("inbox: migrate: %w", err)
	}
	err = pgx.BeginFunc(ctx, committed{db}, func(tx pgx.Tx) error {
		return withoutPath(ctx, tx, func() error { return migrate(ctx, tx, schema, list) })
	})
	if err != nil {
		return fmt.Errorf("inbox: migrate schema %s: %w", schema, pg.WithCure(err))
	}
	return nil
}

// Version returns the version of the inbox tables in the schema, and the one that this program needs. It returns
// ErrNotMigrated where there are none.
func Version(ctx context.Context, db DB, schema string) (stored, needed int, err error) {
	schema = cmp.Or(schema, DefaultSchema)
	if err := pg.CheckSchema(schema); err != nil {
		return 0, 0, fmt.Errorf("inbox: %w", err)
	}
	list, err := loadMigrations()
	if err != nil {
		return 0, 0, err
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	err = db.QueryRow(ctx, `SELECT coalesce(pg_catalog.max(version), 0) FROM `+quoted+`.inbox_schema_version`).Scan(&stored)
	if err != nil {
		return 0, len(list), fmt.Errorf("inbox: read the version of schema %s: %w", schema, withCure(err))
	}
	return stored, len(list), nil
}

// loadMigrations returns the texts in order; the first is version 1.
func loadMigrations() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for n, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		if version, err := strconv.Atoi(number); err != nil || version != n+1 {
			return nil, fmt.Errorf("migration %s does not follow number %d", name, n)
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[n] = string(text)
	}
	return texts, nil
}

// withoutPath protects the meaning of names from roles that may create in a schema of the session's path. The transaction may be part of the
// caller's: it gets its path back.
func withoutPath(ctx context.Context, tx pgx.Tx, do func() error) error {
	var path string
	if err := tx.QueryRow(ctx, `SELECT pg_catalog.current_setting('search_path')`).Scan(&path); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SET LOCAL search_path = pg_catalog, pg_temp`); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `SELECT set_config('search_path', $1, true)`, path)
	return err
}

// findVersions finds the table of versions, and names its owner where it was there before the inbox: its triggers and defaults would run as
// the migrating role.
const findVersions = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1), to_regclass($2) IS NULL,
	(SELECT pg_get_userbyid(v.relowner)::text FROM pg_class AS v LEFT JOIN pg_class AS s ON s.oid = to_regclass($3) AND s.relowner = v.relowner
	  WHERE v.oid = to_regclass($2) AND pg_get_userbyid(v.relowner) <> current_user AND s.oid IS NULL)`

func migrate(ctx context.Context, tx pgx.Tx, schema string, list []string) error {
	h := fnv.New64a()
	_, _ = h.Write([]byte("postrider inbox migrate " + schema)) // a hash never fails
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(h.Sum64())); err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	table := quoted + ".inbox_schema_version"
	var exists, missing bool
	var planted *string
	if err := tx.QueryRow(ctx, findVersions, schema, table, quoted+".inbox_lanes").Scan(&exists, &missing, &planted); err != nil {
		return err
	}
	if planted != nil {
		return fmt.Errorf("%s made %s, and the inbox is not its: DROP it, or connect as that role if it is", *planted, table)
	}
	if !exists {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+quoted); err != nil {
			return err
		}
	}
	if missing {
		_, err := tx.Exec(ctx, `CREATE TABLE `+table+` (
			version integer NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`)
		if err != nil {
			return err
		}
	}
	var stored int
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+quoted+`.inbox_schema_version`).Scan(&stored); err != nil {
		return err
	}
	if stored > len(list) {
		return fmt.Errorf("%w: version %d, this program knows %d", ErrNewer, stored, len(list))
	}
	for version := stored + 1; version <= len(list); version++ {
		text := strings.ReplaceAll(list[version-1], "{schema}", quoted)
		if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("version %d: %w", version, shown(err))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+quoted+`.inbox_schema_version (version) VALUES ($1)`, version); err != nil {
			return err
		}
	}
	return nil
}

// shown adds the further fields of PostgreSQL's error to its message.
func shown(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Detail != "" {
		return fmt.Errorf("%w (%s)", err, answer.Detail)
	}
	return err
}
