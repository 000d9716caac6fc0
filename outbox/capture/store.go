package capture

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var statements embed.FS

// ErrInput is wrapped by every refusal of a request; the text names the flag of the commands, and the cure.
var ErrInput = errors.New("refused")

// refusal is an ErrInput with its reason alone.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrInput }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Purpose is a trigger's purpose.
type Purpose string

// The purposes, as commands name them.
const (
	Captured Purpose = "capture"
	Adopted  Purpose = "adopt"
)

// trigger returns the trigger's name: digits sort before other names, and triggers fire in the order of their names.
func (k Purpose) trigger() string { return "00_postrider_" + string(k) }

// truncates returns the name of the trigger that refuses TRUNCATE.
func (k Purpose) truncates() string { return k.trigger() + "_truncate" }

// Store makes, lists and drops the triggers that append to one outbox.
type Store struct {
	db     *pgxpool.Pool
	schema string
	sql    queries
}

type queries struct{ Body, Guard, Revoked, Find, Columns, Late, Installed, Membership, Published, LimitLocks, Unique, MayAdopt, Own, Fit, Versions, Append, MayBackfill, Since pg.Query }

// New returns a store for the outbox in that schema, or pg.ErrSchemaName.
func New(db *pgxpool.Pool, schema string) (*Store, error) {
	s := &Store{db: db, schema: schema}
	if err := pg.Fill(statements, "sql/*.sql", "capture", schema, &s.sql); err != nil {
		return nil, err
	}
	return s, nil
}

// Options are the options of Capture, Adopt and Drop.
type Options struct {
	// DryRun changes nothing; Done.SQL has the statements.
	DryRun bool
	// Replace drops the existing trigger of that kind, in the same transaction: no change is missed.
	Replace bool
	// Confirmed lets Replace change settings; without it that is an ErrInput, and Done.Changes names the changes.
	Confirmed bool
	// Prune makes Apply drop the captures that its list does not name.
	Prune bool
	// Publication is another relay's. The table leaves it in the same transaction, and with Drop comes back: one of the two sees each change.
	// The published part of the table is kept.
	Publication string
	// LeavePublication has Drop leave the table out of the publication.
	LeavePublication bool
	// LockTimeout bounds the wait for the table's writers, and others' wait behind it. Defaults to 5 s.
	LockTimeout time.Duration
	// Backfill makes Capture append the existing rows, page by page, each before its later changes; an interrupted one goes on. Replace
	// begins a finished one anew.
	Backfill bool
	// Progress gets the imported rows and their total; for a backfill the rows read, and the appended ones.
	Progress func(done, all int64)
}

// Done is the result, or the plan.
type Done struct {
	// Table is its name with its schema.
	Table string
	// Action names the act of Apply: Created, Changed, Dropped or Kept.
	Action string
	// Changes are the settings that differ.
	Changes []SettingChange
	// SQL are the statements without those that import rows.
	SQL []string
	// Waiting counts the waiting rows of an adopted table, or the rows that a backfill read. Imported counts their new events; the others had
	// theirs.
	Waiting, Imported int64
}

// calls returns the text of a call in a function's body; of every one for "".
func (s *Store) calls(what string) string {
	start := identifier(s.schema) + ".outbox_append_"
	if what == "" {
		return start
	}
	return start + what + "("
}

// Drop ends the work of Capture or Adopt on a table; existing events stay.
func (s *Store) Drop(ctx context.Context, kind Purpose, table string, o Options) (Done, error) {
	var done Done
	err := s.transaction(ctx, o, func(tx pgx.Tx) error {
		found, err := s.installed(ctx, tx, kind, table)
		if err != nil {
			return err
		}
		if found == nil {
			return refuse("--table: %s has no trigger of `postrider %s` that appends to schema %s; `postrider %s list` shows those that there are",
				table, kind, s.schema, kind)
		}
		back, err := s.comesBack(ctx, tx, found, o)
		if err != nil {
			return err
		}
		done = Done{Table: found.Table, SQL: slices.Concat(found.dropped(), back)}
		err = s.execute(ctx, tx, done, o)
		if len(back) > 0 && unfit(err) {
			return refuse("--leave-publication: drops the trigger although %s cannot come back into its publication; nothing was changed: %v", found.Table, err)
		}
		return err
	})
	return done, err
}

// unfit reports whether a publication does not take a table as it is now; a missing right is another matter.
func unfit(err error) bool {
	return pg.Refused(err, "42", "55000", "0A000") && !pg.Refused(err, "42501")
}

// transaction runs do in one, and ends it without effect for a dry run.
func (s *Store) transaction(ctx context.Context, o Options, do func(pgx.Tx) error) error {
	// Commits during a wait for a lock must show, whatever the database's default is.
	tx, err := s.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	limit := cmp.Or(o.LockTimeout, 5*time.Second).Milliseconds()
	if _, err := s.sql.LimitLocks.Exec(ctx, tx, pg.Args{"limit": strconv.FormatInt(limit, 10)}); err != nil {
		return err
	}
	if err := do(tx); err != nil || o.DryRun {
		return err
	}
	return tx.Commit(ctx)
}

// execute runs the statements of an outcome.
func (s *Store) execute(ctx context.Context, tx pgx.Tx, done Done, o Options) error {
	if o.DryRun {
		return nil
	}
	for _, statement := range done.SQL {
		if _, err := tx.Exec(ctx, statement); err != nil {
			if strings.HasPrefix(statement, publication) {
				err = fmt.Errorf("--publication: %w", err)
			}
			return explained(done.Table, err)
		}
	}
	return nil
}

// explained adds the cure to PostgreSQL's error.
func explained(table string, err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case "55P03": // lock_not_available
		return fmt.Errorf("others write to %s for longer than --lock-timeout, and nothing was changed: "+
			"wait until their transactions end, or for longer: %w", table, err)
	case "22P05": // untranslatable_character
		return fmt.Errorf(`a row of %s has a character, as \u3042 in JSON, that the database's encoding or UTF-8 has no place for, and nothing was changed: `+
			"mend it, choose others by --where, or leave what is there with --no-import: %w", table, err)
	case "55000": // object_not_in_prerequisite_state: the publication is FOR ALL TABLES
		return fmt.Errorf("%s cannot leave it, and nothing was changed: drop it and create it FOR TABLE …, in one transaction: %w", table, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("a right is missing, and nothing was changed: run it as a superuser, or as the owner of %s with CREATE on its schema: %w", table, err)
	case "2BP01": // dependent_objects_still_exist
		return fmt.Errorf("another trigger calls the function, too, and nothing was changed: DROP TRIGGER that one first (%s): %w", answer.Detail, err)
	case "42723", "42710": // the function or the trigger exists
		return fmt.Errorf("%s, or one of its partitions, has such a trigger, or another object its name; nothing was changed: %w", table, err)
	}
	return err
}
