package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Info describes a migrated schema.
type Info struct {
	// Version is the last applied migration.
	Version int64
	// Partitions is the stored partition count.
	Partitions partition.Count
	// MaxPayloadBytes is the largest payload that the append functions accept.
	MaxPayloadBytes int64
	// Events is the relation with the events, as "name" in the schema or "schema.name".
	Events string
	// Stream is the JetStream stream of the events and Subject the template of their subjects; empty: none is stored.
	Stream, Subject string
	// OutboxID identifies this outbox among others that publish to the same stream.
	OutboxID uuid.UUID
	// ControlPrefix begins the subjects of its control messages.
	ControlPrefix string
}

// Check returns the migrated state. Errors: ErrNotMigrated; ErrOutdated; ErrNewer where a newer binary's migration shuts this one out;
// ErrPartitionMismatch where Config.Partitions is set and differs; ErrStreamMismatch the same for Config.Stream or Config.Subject. It needs
// SELECT on outbox_schema_version and outbox_settings.
func (m *Migrator) Check(ctx context.Context, db pg.RowQuerier) (Info, error) {
	version, err := m.version(ctx, db)
	if err != nil {
		return Info{}, fmt.Errorf("check schema %s: %w", m.quoted(), err)
	}
	latest, err := latestVersion()
	if err != nil {
		return Info{}, err
	}
	info := Info{Version: version}
	switch {
	case version == 0:
		return info, fmt.Errorf("%w: schema %s has no outbox tables; %s", ErrNotMigrated, m.quoted(), m.advice())
	case version > latest:
		if err := m.checkNewer(ctx, db, version, latest); err != nil {
			return info, err
		}
	}
	err = db.QueryRow(ctx, `SELECT partition_count, max_payload_bytes FROM `+m.quoted()+`.outbox_settings`).
		Scan(&info.Partitions, &info.MaxPayloadBytes)
	if err != nil {
		return info, fmt.Errorf("check schema %s: read settings: %w", m.quoted(), err)
	}
	if m.cfg.Partitions != 0 && partition.Count(m.cfg.Partitions) != info.Partitions {
		return info, fmt.Errorf("%w: schema %s has %d partitions, %d were asked for; leave the count out, or give the stored one",
			ErrPartitionMismatch, m.quoted(), info.Partitions, m.cfg.Partitions)
	}
	if version < latest {
		return info, fmt.Errorf("%w: schema %s is at version %d, this binary needs %d; %s",
			ErrOutdated, m.quoted(), version, latest, m.advice())
	}
	err = db.QueryRow(ctx, `SELECT outbox_id, events_relation, control_prefix, coalesce(stream_name, ''), coalesce(subject_template, '') FROM `+m.quoted()+`.outbox_settings`).
		Scan(&info.OutboxID, &info.Events, &info.ControlPrefix, &info.Stream, &info.Subject)
	if err != nil {
		return info, fmt.Errorf("check schema %s: read settings: %w", m.quoted(), err)
	}
	return info, errors.Join(m.checkStream("--stream ", m.cfg.Stream, info.Stream), m.checkStream("--subject ", m.cfg.Subject, info.Subject))
}

// checkStream compares the requested value with the stored one, if both are set.
func (m *Migrator) checkStream(flag, asked, stored string) error {
	if asked == "" || stored == "" || asked == stored {
		return nil
	}
	if strings.Contains(asked, "{") { // for a shell
		asked = "'" + asked + "'"
	}
	return fmt.Errorf("%w: %s%s is asked for, schema %s has %s; leave it out, or stop the workers and change what is stored: `%s`",
		ErrStreamMismatch, flag, asked, m.quoted(), stored, m.up(flag+asked))
}

// advice names the command that brings the schema up to date.
func (m *Migrator) advice() string { return "run `" + m.up() + "`" }

func (m *Migrator) up(flags ...string) string {
	words := []string{"postrider migrate up"}
	if m.cfg.Schema != DefaultSchema {
		words = append(words, "--schema "+m.cfg.Schema)
	}
	return strings.Join(append(words, flags...), " ")
}

// checkNewer asks a schema with unknown migrations whether this binary can work with it all the same.
func (m *Migrator) checkNewer(ctx context.Context, db pg.RowQuerier, version, latest int64) error {
	var from int64
	if err := db.QueryRow(ctx, `SELECT usable_from FROM `+m.quoted()+`.outbox_settings`).Scan(&from); err != nil {
		return fmt.Errorf("check schema %s: read settings: %w", m.quoted(), err)
	}
	if from > latest {
		return fmt.Errorf("%w: schema %s is at version %d, for binaries that know %d; this one knows %d; upgrade postrider",
			ErrNewer, m.quoted(), version, from, latest)
	}
	return nil
}

func (m *Migrator) version(ctx context.Context, db pg.RowQuerier) (int64, error) {
	var version int64
	err := db.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+m.quoted()+`.`+versionTable+` WHERE is_applied`).Scan(&version)
	if pg.Refused(err, "42P01", "3F000") { // no such table, no such schema
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version: %w", err)
	}
	return version, nil
}

func files() ([]Migration, error) {
	names, err := fs.Glob(embedded, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list embedded migrations: %w", err)
	}
	steps := make([]Migration, 0, len(names))
	for _, name := range names {
		name = path.Base(name)
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number of migration %s: %w", name, err)
		}
		steps = append(steps, Migration{Version: version, Name: name})
	}
	return steps, nil
}

func latestVersion() (int64, error) {
	steps, err := files()
	if err != nil || len(steps) == 0 {
		return 0, err
	}
	return steps[len(steps)-1].Version, nil
}

// onPgx runs do on the connection of the driver.
func onPgx(conn *sql.Conn, do func(*pgx.Conn) error) error {
	return conn.Raw(func(driver any) error {
		raw, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("unexpected driver %T", driver)
		}
		return do(raw.Conn())
	})
}
