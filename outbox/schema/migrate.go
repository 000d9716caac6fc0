package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

const versionTable = "outbox_schema_version"

// Migrator migrates one schema. It holds no connection between calls and may be used from several goroutines.
type Migrator struct {
	cfg  Config
	lock locker
}

// Migration is one step and whether it is applied.
type Migration struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"`
	Applied   bool      `json:"applied"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Migrator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Migrator{cfg: cfg, lock: newLocker(cfg.Schema)}, nil
}

// Up creates the schema where it is missing and applies every migration that is not applied yet. It returns, and changes nothing then:
// ErrPartitionMismatch, when Config.Partitions is set and differs from the stored count; ErrCreators, when others may create in the schema;
// ErrNewer as Check does; ErrServerVersion for PostgreSQL before 14. After the migration it returns ErrEvents, when Config.Events does not
// exist; ErrLiving, when it, Config.Stream or Config.Subject cannot be changed now; ErrControl, when Config.ControlPrefix cannot any more.
func (m *Migrator) Up(ctx context.Context) (err error) {
	db, err := m.open()
	if err != nil {
		return fmt.Errorf("migrate up: %w", err)
	}
	defer func() { err = wrap("migrate up", errors.Join(err, db.Close())) }()
	// The first lock covers the checks before goose writes; goose takes the same lock again. Another process may have migrated in between,
	// with another count: hence the second check.
	if err := m.locked(ctx, db, func(conn *sql.Conn) error { return m.prepare(ctx, conn) }); err != nil {
		return err
	}
	provider, err := m.provider(db)
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return err
	}
	for _, r := range results {
		m.cfg.Logger.InfoContext(ctx, "migration applied", "schema", m.cfg.Schema, "version", r.Source.Version, "took", r.Duration)
	}
	return m.locked(ctx, db, func(conn *sql.Conn) error {
		return errors.Join(onPgx(conn, func(raw *pgx.Conn) error { return m.storePlaces(ctx, raw) }), m.storeControl(ctx, conn))
	})
}

// refuseCreators keeps a schema closed: beside a function of ours a stranger's could stand, which a producer that leaves types open calls.
func (m *Migrator) refuseCreators(ctx context.Context, conn *sql.Conn) error {
	return onPgx(conn, func(raw *pgx.Conn) error {
		creators, err := Creators(ctx, raw, m.cfg.Schema)
		if err != nil || len(creators) == 0 {
			return err
		}
		for _, c := range creators {
			m.cfg.Logger.WarnContext(ctx, "somebody may create objects in the outbox's schema", "schema", m.cfg.Schema, "role", c.Role, "cure", c.Cure)
		}
		if m.cfg.OthersMayCreate {
			return nil
		}
		return fmt.Errorf("%w: %s; or choose a schema of its own (--schema), or say --others-may-create", ErrCreators, creators[0])
	})
}

func (m *Migrator) prepare(ctx context.Context, conn *sql.Conn) error {
	var exists bool
	err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, m.cfg.Schema).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for schema %s: %w", m.quoted(), err)
	}
	if !exists {
		if _, err := conn.ExecContext(ctx, `CREATE SCHEMA `+m.quoted()); err != nil {
			return fmt.Errorf("create schema %s: %w", m.quoted(), err)
		}
	}
	if err := m.refuseCreators(ctx, conn); err != nil {
		return err
	}
	var owner string
	switch err := conn.QueryRowContext(ctx, planted, m.quoted()+"."+versionTable, m.quoted()+".outbox_settings").Scan(&owner); {
	case err == nil:
		return fmt.Errorf("%w: %s made %s.%s, and the outbox is not its: DROP it, or connect as that role if it is", ErrCreators, owner, m.quoted(), versionTable)
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("look for the owner of %s: %w", versionTable, err)
	}
	return m.checkStored(ctx, conn)
}

// planted returns the owner of a versions table older than the outbox: its triggers and defaults would run as the migrating role.
const planted = `SELECT pg_get_userbyid(v.relowner) FROM pg_class AS v LEFT JOIN pg_class AS s ON s.oid = to_regclass($2) AND s.relowner = v.relowner
	WHERE v.oid = to_regclass($1) AND pg_get_userbyid(v.relowner) <> current_user AND (s.oid IS NULL OR NOT has_schema_privilege(v.relowner, v.relnamespace, 'CREATE'))`

// checkStored compares a schema that is migrated, wholly or in part, with the configuration.
func (m *Migrator) checkStored(ctx context.Context, conn *sql.Conn) error {
	return onPgx(conn, func(raw *pgx.Conn) error {
		_, err := m.Check(ctx, raw)
		if errors.Is(err, ErrNotMigrated) || errors.Is(err, ErrOutdated) || errors.Is(err, ErrStreamMismatch) {
			return nil
		}
		return err
	})
}

func (m *Migrator) provider(db *sql.DB) (*goose.Provider, error) {
	count := DefaultPartitions
	if m.cfg.Partitions != 0 {
		count = partition.Count(m.cfg.Partitions)
	}
	files, err := newSource(m.cfg.Schema, count)
	if err != nil {
		return nil, err
	}
	store, err := newVersions(m.quoted() + "." + versionTable)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, files,
		goose.WithStore(store),
		goose.WithSessionLocker(m.lock),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(m.cfg.Logger))
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return provider, nil
}

// Down removes everything that Up made except the schema itself: the functions, the tables and with them every event. Errors:
// ErrUnpublished while rows wait to be published, unless Config.Force is set; ErrCaptured while tables append by triggers;
// ErrInUse while a view or a foreign key needs the events. On a schema that is not migrated it does nothing.
func (m *Migrator) Down(ctx context.Context) (err error) {
	db, err := m.open()
	if err != nil {
		return fmt.Errorf("migrate down: %w", err)
	}
	defer func() { err = wrap("migrate down", errors.Join(err, db.Close())) }()
	var migrated bool
	err = m.locked(ctx, db, func(conn *sql.Conn) (err error) {
		migrated, err = m.mayRemove(ctx, conn)
		return err
	})
	if err != nil || !migrated {
		return err
	}
	provider, err := m.provider(db)
	if err != nil {
		return err
	}
	results, err := provider.DownTo(ctx, 0)
	if err != nil {
		return err
	}
	for _, r := range results {
		m.cfg.Logger.InfoContext(ctx, "migration removed", "schema", m.cfg.Schema, "version", r.Source.Version)
	}
	return m.locked(ctx, db, func(conn *sql.Conn) error { return m.dropVersions(ctx, conn) })
}

// mayRemove reports whether there is something to remove.
func (m *Migrator) mayRemove(ctx context.Context, conn *sql.Conn) (bool, error) {
	var versions, pointers sql.NullString
	err := conn.QueryRowContext(ctx, `SELECT to_regclass($1)::text, to_regclass($2)::text`,
		pgx.Identifier{m.cfg.Schema, versionTable}.Sanitize(), pgx.Identifier{m.cfg.Schema, "outbox"}.Sanitize()).
		Scan(&versions, &pointers)
	if err != nil {
		return false, fmt.Errorf("look for tables: %w", err)
	}
	if !versions.Valid || !pointers.Valid {
		return versions.Valid, nil
	}
	var captured sql.NullString
	err = conn.QueryRowContext(ctx, `SELECT min(t.tgrelid::regclass::text) FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
		WHERE t.tgname IN ('00_postrider_capture', '00_postrider_adopt') AND strpos(p.prosrc, $1) > 0`, m.quoted()+".outbox_append_").Scan(&captured)
	if err != nil {
		return false, fmt.Errorf("look for triggers: %w", err)
	}
	if captured.Valid {
		return false, fmt.Errorf("%w, and without it writes to %s would fail: end that with `postrider capture drop` or `postrider adopt drop` first", ErrCaptured, captured.String)
	}
	if err := m.mayDrop(ctx, conn); err != nil || m.cfg.Force {
		return err == nil, err
	}
	var waiting bool
	err = conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM `+m.quoted()+`.outbox)`).Scan(&waiting)
	if err != nil {
		return false, fmt.Errorf("look for unpublished rows: %w", err)
	}
	if waiting {
		return false, fmt.Errorf("%w in schema %s: publish, skip or discard them, or force the removal", ErrUnpublished, m.quoted())
	}
	return true, nil
}

// mayDrop refuses where a table or a view could not be dropped: each migration is taken back by itself, and the first ones would be gone.
func (m *Migrator) mayDrop(ctx context.Context, conn *sql.Conn) error {
	var user sql.NullString
	err := conn.QueryRowContext(ctx, `WITH ours AS (SELECT to_regclass($1) AS events, to_regclass($2) AS messages)
		SELECT min(u.name) FROM (
		SELECT 'view ' || r.ev_class::regclass AS name FROM ours, pg_depend AS d JOIN pg_rewrite AS r ON r.oid = d.objid
		 WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid IN (ours.events, ours.messages) AND r.ev_class NOT IN (ours.events, ours.messages)
		 UNION ALL
		SELECT 'a foreign key of ' || c.conrelid::regclass FROM ours, pg_constraint AS c WHERE c.contype = 'f' AND c.confrelid = ours.events) AS u`,
		pgx.Identifier{m.cfg.Schema, "events"}.Sanitize(), pgx.Identifier{m.cfg.Schema, "outbox_messages"}.Sanitize()).Scan(&user)
	if err != nil {
		return fmt.Errorf("look for what needs the tables: %w", err)
	}
	if user.Valid {
		return fmt.Errorf("%w in schema %s: %s; remove that first", ErrInUse, m.quoted(), user.String)
	}
	return nil
}

// dropVersions removes the version table, unless somebody migrated up again since the last migration was removed.
func (m *Migrator) dropVersions(ctx context.Context, conn *sql.Conn) error {
	table := m.quoted() + "." + versionTable
	var version int64
	err := conn.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+table).Scan(&version)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if version > 0 {
		return nil
	}
	if _, err := conn.ExecContext(ctx, `DROP TABLE `+table); err != nil {
		return fmt.Errorf("drop version table: %w", err)
	}
	return nil
}

func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, pg.WithCure(err))
}
