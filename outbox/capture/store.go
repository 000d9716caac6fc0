package capture

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
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

type queries struct{ Find, Columns, Installed, Narrowed, LimitLocks, Unique, MayAdopt, Own, Fit, Versions, Append pg.Query }

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
	// Publication is one that another relay reads. The table leaves it in the same transaction, and with Drop comes back: each change is told
	// by one of the two.
	Publication string
	// LockTimeout is how long the table's writers may keep the trigger waiting, and others behind it. Defaults to 5 s.
	LockTimeout time.Duration
	// Progress is told how many rows of how many were imported.
	Progress func(done, all int64)
}

const publication = "ALTER PUBLICATION "

// published are the statements that take a table out of the other relay's publication, or put it back.
func (o Options) published(table name, verb string) []string {
	if o.Publication == "" {
		return nil
	}
	return []string{publication + identifier(o.Publication) + " " + verb + " TABLE " + table.quoted()}
}

// Done is what was done, or would be.
type Done struct {
	// Table is its name with its schema.
	Table string
	// SQL is the statements without what imports rows.
	SQL []string
	// Waiting is how many rows waited in a table that was adopted, Imported how many became events; the others had theirs.
	Waiting, Imported int64
}

// Trigger is one that is there.
type Trigger struct {
	Purpose Purpose
	// Table and Function are names with their schemas. Owner is the role that the function runs as.
	Table, Function, Owner string
	// Enabled is false while ALTER TABLE … DISABLE TRIGGER keeps it from firing.
	Enabled bool
	// Settings are a Capture or an Adoption as JSON; empty where the function's comment was changed.
	Settings json.RawMessage

	table, function name
}

// List returns the triggers that append to the outbox, by table.
func (s *Store) List(ctx context.Context) ([]Trigger, error) { return s.list(ctx, s.db) }

func (s *Store) list(ctx context.Context, db pg.Querier) ([]Trigger, error) {
	names := []string{Captured.trigger(), Adopted.trigger()}
	list, err := pg.Collect(ctx, db, s.sql.Installed, pg.Args{"triggers": names, "calls": s.calls("")}, func(row pgx.CollectableRow) (t Trigger, err error) {
		var trigger, note string
		err = row.Scan(&trigger, &t.table.schema, &t.table.name, &t.function.schema, &t.function.name, &t.Owner, &t.Enabled, &note)
		t.Purpose, t.Table, t.Function = Captured, t.table.String(), t.function.String()
		if trigger == Adopted.trigger() {
			t.Purpose = Adopted
		}
		if json.Valid([]byte(note)) {
			t.Settings = json.RawMessage(note)
		}
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	return list, nil
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
		drop, found, err := s.drop(ctx, tx, kind, table)
		if err != nil {
			return err
		}
		if drop == nil {
			return refuse("--table: %s has no trigger of `postrider %s` that appends to schema %s; `postrider %s list` shows those that there are",
				table, kind, s.schema, kind)
		}
		done = Done{Table: found.String(), SQL: slices.Concat(drop, o.published(found, "ADD"))}
		return s.execute(ctx, tx, done, o)
	})
	return done, err
}

func (s *Store) drop(ctx context.Context, tx pgx.Tx, kind Purpose, table string) ([]string, name, error) {
	list, err := s.list(ctx, tx)
	if err != nil {
		return nil, name{}, err
	}
	for _, t := range list {
		if t.Purpose != kind || t.Table != table && t.Table != "public."+table {
			continue
		}
		return []string{
			"DROP TRIGGER IF EXISTS " + identifier(kind.truncates()) + " ON " + t.table.quoted(),
			"DROP TRIGGER " + identifier(kind.trigger()) + " ON " + t.table.quoted(),
			"DROP FUNCTION " + t.function.quoted() + "()",
		}, t.table, nil
	}
	return nil, name{}, nil
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
	var narrowed bool
	if err := s.sql.Narrowed.Row(ctx, tx, pg.Args{"publication": o.Publication, "table": done.Table}).Scan(&narrowed); err != nil {
		return err
	}
	if narrowed {
		return refuse("--publication: %s publishes some rows or columns of %s, and all would come back: take it out yourself, and leave --publication out", o.Publication, done.Table)
	}
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
	case "42723", "42710": // the function or the trigger exists
		return fmt.Errorf("%s, or one of its partitions, has such a trigger, or another object its name; nothing was changed: %w", table, err)
	}
	return err
}
