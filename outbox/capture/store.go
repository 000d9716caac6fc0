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

// ErrInput is wrapped by whatever is refused for what was asked; the text names the flag of the commands, and the cure.
var ErrInput = errors.New("refused")

// refusal is an ErrInput that says what is wrong and nothing else.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrInput }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// Purpose is what a trigger is for.
type Purpose string

// The purposes, as commands name them.
const (
	Captured Purpose = "capture"
	Adopted  Purpose = "adopt"
)

// trigger is the trigger's name: digits sort before what tables have besides, and triggers fire in the order of their names.
func (k Purpose) trigger() string { return "00_postrider_" + string(k) }

// truncates is the name of the trigger that refuses TRUNCATE.
func (k Purpose) truncates() string { return k.trigger() + "_truncate" }

// Store makes, lists and drops the triggers that append to one outbox.
type Store struct {
	db     *pgxpool.Pool
	schema string
	sql    queries
}

type queries struct{ Body, Revoked, Find, Columns, Late, Installed, Membership, Published, LimitLocks, Unique, MayAdopt, Own, Fit, Versions, Append, MayBackfill, Since pg.Query }

// New returns a store for the outbox in that schema, or pg.ErrSchemaName.
func New(db *pgxpool.Pool, schema string) (*Store, error) {
	s := &Store{db: db, schema: schema}
	if err := pg.Fill(statements, "sql/*.sql", "capture", schema, &s.sql); err != nil {
		return nil, err
	}
	return s, nil
}

// Options is how Capture, Adopt and Drop work.
type Options struct {
	// DryRun changes nothing; Done.SQL says what would be done.
	DryRun bool
	// Replace drops the trigger of that kind that is there, in the same transaction: no change is missed.
	Replace bool
	// Confirmed has Replace change settings; without it that is an ErrInput, and Done.Changes names what would change.
	Confirmed bool
	// Prune has Apply drop the captures that its list does not name.
	Prune bool
	// Publication is one that another relay reads. The table leaves it in the same transaction, and with Drop comes back: each change is told
	// by one of the two. What of the table was published is kept.
	Publication string
	// LeavePublication has Drop leave the table out of the publication.
	LeavePublication bool
	// LockTimeout is how long the table's writers may keep the trigger waiting, and others behind it. Defaults to 5 s.
	LockTimeout time.Duration
	// Backfill has Capture tell the rows that are there already, page by page, each before its later changes; what was interrupted goes on.
	// Replace has it begin anew once it is done.
	Backfill bool
	// Progress is told how many rows of how many were imported; of a backfill, how many were read, and how many of them told.
	Progress func(done, all int64)
}

// Done is what was done, or would be.
type Done struct {
	// Table is its name with its schema.
	Table string
	// Action names the act of Apply: Created, Changed, Dropped or Kept.
	Action string
	// Changes are the settings that are others than before.
	Changes []SettingChange
	// SQL is the statements without what imports rows.
	SQL []string
	// Waiting counts the rows that waited in an adopted table, or that a backfill read. Imported counts those that became events; the
	// others had theirs.
	Waiting, Imported int64
}

// calls is what a function of ours has in its body; every one for "".
func (s *Store) calls(what string) string {
	start := identifier(s.schema) + ".outbox_append_"
	if what == "" {
		return start
	}
	return start + what + "("
}

// Drop ends what Capture or Adopt began with a table; the events that there are stay.
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

// unfit tells that a publication does not take a table as it is by now; a missing right is another matter.
func unfit(err error) bool {
	return pg.Refused(err, "42", "55000", "0A000") && !pg.Refused(err, "42501")
}

// transaction runs do in one, and ends it without effect for a dry run.
func (s *Store) transaction(ctx context.Context, o Options, do func(pgx.Tx) error) error {
	// What was committed while a lock was waited for must show, whatever the database's default is.
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

// explained adds the cure to what PostgreSQL says.
func explained(table string, err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case "55P03": // lock_not_available
		return fmt.Errorf("others write to %s for longer than --lock-timeout, and nothing was changed: "+
			"wait until their transactions end, or for longer: %w", table, err)
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
